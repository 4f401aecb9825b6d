package githubsim

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// judgeContent asks the rules that are about what a push brings: signatures,
// workflow files and large files. The objects are taken first, as git takes
// them into quarantine; that does no harm when the push is refused.
func (s *Server) judgeContent(ctx context.Context, who caller, rp *repo, commands []pushCommand, push []byte) (map[string][]string, error) {
	refusals := map[string][]string{}
	large, err := bringsLarge(push, s.cfg.MaxFile)
	if err != nil {
		return nil, err
	}
	taken := false
	for _, c := range commands {
		branch, ok := strings.CutPrefix(c.ref, "refs/heads/")
		if !ok || c.new == "" {
			continue
		}
		s.mu.Lock()
		ask := s.contentRules(who, rp, branch, c)
		from := orElse(c.old, rp.branch(rp.defaultBranch))
		s.mu.Unlock()
		if large {
			ask = append(ask, sizes)
		}
		if len(ask) == 0 {
			continue
		}
		if !taken {
			if err := rp.git.take(ctx, push); err != nil {
				return nil, err
			}
			taken = true
		}
		why, err := rp.git.contentViolations(ask, from, c.new, s.cfg.MaxFile)
		if err != nil {
			return nil, err
		}
		if len(why) > 0 {
			refusals[c.ref] = why
		}
	}
	return refusals, nil
}

// What is asked about content: the permission that a push of workflow files
// needs, the type of a rule, and the host's limit for one file.
const (
	workflows  = "workflows"
	signatures = "required_signatures"
	sizes      = "sizes"
)

// contentRules are the types of the rules about content that bind a caller. mu is held.
func (s *Server) contentRules(who caller, r *repo, branch string, c pushCommand) []string {
	var ask []string
	if who.kind == asInstallation && !granted(who.token.permissions, "workflows:write") {
		ask = append(ask, workflows)
	}
	for _, u := range s.rulesOf(r, branch) {
		if mode := s.bypassMode(who, r, u); mode == "always" || mode == "exempt" {
			continue
		}
		for _, rule := range u.rules {
			if rule.Type == "required_signatures" {
				ask = append(ask, signatures)
			}
		}
	}
	if p := r.protect[branch]; p != nil && p.signed && !p.lets(who) {
		ask = append(ask, classicMark+signatures)
	}
	return ask
}

// contentViolations lists, in GitHub's words, what the commits of a push break.
func (g *gitStore) contentViolations(ask []string, from, to string, maxFile int64) (why []string, err error) {
	commits, err := g.between(from, to)
	if err != nil {
		return nil, err
	}
	say := func(rule, words string) {
		if slices.Contains(ask, rule) && !slices.Contains(why, words) {
			why = append(why, words)
		}
	}
	for _, c := range commits {
		_, _, raw, err := g.cat.object(c.SHA)
		if err != nil {
			return nil, err
		}
		head, _, _ := bytes.Cut(raw, []byte("\n\n"))
		if !bytes.Contains(head, []byte("\ngpgsig")) {
			say(signatures, "Commits must have verified signatures.")
			say(classicMark+signatures, classicMark+"Commits must have verified signatures.")
		}
		if !slices.Contains(ask, workflows) && !slices.Contains(ask, sizes) || len(c.Parents) == 0 {
			continue
		}
		parent, err := g.commit(c.Parents[0])
		if err != nil {
			return nil, err
		}
		changes, err := g.diff(parent.Tree, c.Tree, false)
		if err != nil {
			return nil, err
		}
		for _, change := range changes {
			if slices.Contains(ask, sizes) {
				words, err := g.tooLarge(change, maxFile)
				if err != nil {
					return nil, err
				}
				if words != "" {
					say(sizes, words)
				}
			}
			if strings.HasPrefix(change.Path, ".github/workflows/") {
				say(workflows, reasonMark+"refusing to allow a GitHub App to create or update workflow `"+change.Path+"` without `workflows` permission")
			}
		}
	}
	return why, nil
}

// take stores the objects of a push.
func (g *gitStore) take(ctx context.Context, push []byte) error {
	at := bytes.Index(push, []byte("0000PACK"))
	if at < 0 {
		return nil // it brings nothing new
	}
	cmd := exec.CommandContext(ctx, "git", "index-pack", "--stdin", "--fix-thin")
	cmd.Dir, cmd.Env = g.dir, gitEnv()
	cmd.Stdin = bytes.NewReader(push[at+4:])
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("take the objects of a push: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}
