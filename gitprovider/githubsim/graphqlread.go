package githubsim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// refNode is a branch with its commit; nil when there is none. mu is held.
func (c *call) refNode(r *repo, name string) (any, error) {
	sha := r.refs[name]
	if sha == "" {
		return nil, nil
	}
	branch, _ := cutHeads(name)
	rule := any(nil)
	if p := r.protect[branch]; p != nil {
		rule = node{"pattern": value(branch)}
	}
	target, err := c.commitNode(r, sha)
	return node{"name": value(strings.TrimPrefix(name, "refs/heads/")), "refUpdateRule": value(rule), "target": value(target)}, err
}

// commitNode is a commit; nil when the repository does not have it. mu is held.
func (c *call) commitNode(r *repo, sha string) (any, error) {
	k, err := r.git.commit(sha)
	if errors.Is(err, errMissing) || !fullSHA.MatchString(sha) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return node{
		typeName: value("Commit"), "oid": value(k.SHA), "tree": value(node{"oid": value(k.Tree)}),
		"statusCheckRollup": func(map[string]any) (any, error) { return c.rollup(r, k.SHA) },
	}, nil
}

// rollup is all that was reported on a commit, nil when nothing was. mu is held.
func (c *call) rollup(r *repo, sha string) (any, error) {
	if !c.s.may(c.who, r, "checks:read") || !c.s.may(c.who, r, "statuses:read") {
		return nil, graphQLError{"FORBIDDEN", "Resource not accessible by integration"}
	}
	contexts := c.contextNodes(r, sha)
	if len(contexts) == 0 {
		return nil, nil
	}
	return node{"contexts": func(args map[string]any) (any, error) { return connection("contexts", contexts, args) }}, nil
}

// mergeWord is the host's word on whether a pull request merges, which asking has it
// work out. mu is held, but not all the time.
func (c *call) mergeWord(p *pull) string {
	if c.s.cfg.MergeableDelay < 0 {
		c.s.workOutNow(c.r.Context(), p)
	}
	c.s.wonder(p)
	switch mergeable, _ := c.s.mergeState(p); mergeable {
	case true:
		return "MERGEABLE"
	case false:
		return "CONFLICTING"
	default:
		return "UNKNOWN"
	}
}

// contextNodes are the newest check runs and statuses on a commit. mu is held.
func (c *call) contextNodes(r *repo, sha string) []node {
	var all []node
	for _, u := range r.suites[sha] {
		for _, k := range slices.Backward(u.latest()) {
			page := fmt.Sprintf("%s/%s/runs/%d", c.s.URL(), r.fullName(), k.id)
			all = append(all, node{
				typeName: value("CheckRun"), "id": value(nodeID("CR", k.id)), "databaseId": value(k.id), "name": value(k.name),
				"status": value(strings.ToUpper(k.status)), "conclusion": value(text(strings.ToUpper(k.conclusion))), "url": value(page),
				"detailsUrl": value(orElse(k.detailsURL, page)), "startedAt": value(when(k.started)), "completedAt": value(when(k.completed)),
				"checkSuite": value(node{"databaseId": value(u.id), "app": value(node{"databaseId": value(u.app.id)})}),
			})
		}
	}
	for _, t := range latestStatuses(r, sha) {
		all = append(all, node{
			typeName: value("StatusContext"), "context": value(t.context), "state": value(strings.ToUpper(t.state)), "targetUrl": value(text(t.target)),
			"createdAt": value(when(t.created)), "avatarUrl": value(c.s.avatar(t.creator)),
		})
	}
	return all
}

// authorNode is who wrote something. A bot's login stands without "[bot]".
func authorNode(a *account) node {
	login := a.login
	if a.kind == "Bot" {
		login = strings.TrimSuffix(login, "[bot]")
	}
	return node{typeName: value(a.kind), "login": value(login), "databaseId": value(a.id)}
}

// aboutPull is what a pull request says of itself. mu is held.
func (c *call) aboutPull(p *pull) node {
	state := "CLOSED"
	merged, by := any(nil), any(nil)
	switch {
	case p.open:
		state = "OPEN"
	case !p.merged.IsZero():
		state, merged, by = "MERGED", node{typeName: value("Commit"), "oid": value(p.mergeSHA)}, authorNode(p.mergedBy)
	}
	return node{
		"id": value(nodeID("PR", p.id)), "number": value(p.number), "title": value(p.title), "body": value(p.body), "state": value(state),
		"url":     value(fmt.Sprintf("%s/%s/pull/%d", c.s.URL(), p.repo.fullName(), p.number)),
		"isDraft": value(p.draft), "mergedAt": value(when(p.merged)), "updatedAt": value(when(p.updated)), "mergeCommit": value(merged), "mergedBy": value(by),
		"headRefOid": value(p.headSHA), "headRefName": value(p.headRef), "baseRefName": value(p.baseRef), "isCrossRepository": value(p.headRepo != p.repo),
		"headRepository": value(node{"databaseId": value(p.headRepo.id)}), "author": value(authorNode(p.author)),
		"mergeable": func(map[string]any) (any, error) { return c.mergeWord(p), nil },
		"mergeStateStatus": func(map[string]any) (any, error) {
			_, state := c.s.mergeState(p)
			return strings.ToUpper(state), nil
		},
		"statusCheckRollup": func(map[string]any) (any, error) { return c.rollup(p.repo, p.headSHA) },
		"baseRef":           func(map[string]any) (any, error) { return c.refNode(p.repo, "refs/heads/"+p.baseRef) },
		"comments": func(args map[string]any) (any, error) {
			var all []node
			for _, k := range p.comments {
				all = append(all, node{"viewerDidAuthor": value(k.author == c.who.account)})
			}
			return connection("comments", all, args)
		},
		"labels": func(args map[string]any) (any, error) {
			var all []node
			for _, l := range p.labels {
				all = append(all, node{"name": value(l.name)})
			}
			return connection("labels", all, args)
		},
	}
}
