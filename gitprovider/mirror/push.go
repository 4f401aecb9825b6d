package mirror

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"signalbox/gitprovider"
)

// Branch is a branch to publish.
type Branch struct {
	Name   string
	Commit string
}

// Publish puts branches on the host with one push, over whatever is there:
// they are test branches and ours. It returns the host's refusal of each
// branch that it refused, in full. An error means that nobody knows what
// became of the others; the same push again is safe.
func (m *Mirrors) Publish(ctx context.Context, src Source, branches []Branch) (refused map[string]string, err error) {
	if len(branches) == 0 {
		return nil, nil
	}
	refspecs := make([]string, len(branches))
	for i, b := range branches {
		if !validBranch(b.Name) || !validCommit(b.Commit) {
			return nil, fmt.Errorf("publish %.200q at %.80q: not a branch and a commit", b.Name, b.Commit)
		}
		refspecs[i] = "+" + b.Commit + ":refs/heads/" + b.Name
	}
	err = m.with(ctx, src, func(c *clone) error {
		refused = map[string]string{}
		said, err := c.push(ctx, refspecs)
		if err != nil {
			return fmt.Errorf("publish %d test branches on %s: %w", len(branches), src.Repo, err)
		}
		for _, b := range branches {
			r, ok := said["refs/heads/"+b.Name]
			switch {
			case !ok:
				return fmt.Errorf("publish %d test branches on %s: git says nothing about %q", len(branches), src.Repo, b.Name)
			case r.flag == '!':
				refused[b.Name] = r.text
			}
		}
		return nil
	})
	return refused, err
}

// Advance moves a branch of the host from one commit to a descendant of it,
// by compare-and-swap and without force. Stale: the branch is elsewhere, or
// the commit does not extend it. Denied: the host refuses; the message is
// its own, in full. Any other error: nobody knows; read the branch.
func (m *Mirrors) Advance(ctx context.Context, src Source, branch, from, to string) error {
	if !validBranch(branch) || !validCommit(from) || !validCommit(to) {
		return fmt.Errorf("advance %.200q from %.80q to %.80q: not a branch and two commits", branch, from, to)
	}
	return m.with(ctx, src, func(c *clone) error {
		if err := c.need(ctx, from, to); err != nil {
			return err
		}
		// A lease would let git overwrite: it must be a fast-forward as well.
		forward, err := c.contains(ctx, to, from)
		if err != nil {
			return err
		}
		if !forward {
			return &gitprovider.Error{Kind: gitprovider.Stale, Message: fmt.Sprintf("%.10s does not extend %.10s", to, from)}
		}
		ref := "refs/heads/" + branch
		said, err := c.push(ctx, []string{to + ":" + ref}, "--force-with-lease="+ref+":"+from)
		if err != nil {
			return fmt.Errorf("push %.10s to %s: %w", to, branch, err)
		}
		r, ok := said[ref]
		switch {
		case !ok:
			return fmt.Errorf("push %.10s to %s: git says nothing about it", to, branch)
		case r.flag != '!':
			return nil
		case r.local && (r.reason == "stale info" || r.reason == "non-fast-forward" || r.reason == "fetch first"):
			return &gitprovider.Error{Kind: gitprovider.Stale, Message: fmt.Sprintf("%s is no longer at %.10s", branch, from)}
		default:
			return &gitprovider.Error{Kind: gitprovider.Denied, Message: r.text}
		}
	})
}

// reply is what a push said about one reference.
type reply struct {
	flag   byte   // ' ' forwarded, '+' forced, '*' new, '=' as it was, '!' refused
	local  bool   // git itself refused, without the host
	reason string // in the parentheses
	text   string // for people: the reason and all that the host wrote
}

// push runs one push and returns what was said about each reference of the
// host. References may be refused one by one; an error says that no verdict
// came back.
func (c *clone) push(ctx context.Context, refspecs []string, options ...string) (map[string]reply, error) {
	args := append([]string{"push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-atomic", "--no-signed", "--thin"}, options...)
	args = append(append(args, "--end-of-options", "origin"), refspecs...)
	out, err := c.git(ctx, job{remote: true, args: args})
	said := map[string]reply{}
	for line := range strings.Lines(string(out)) {
		if ref, r, ok := parsePush(strings.TrimRight(line, "\n")); ok {
			said[ref] = r
		}
	}
	if err == nil || ctx.Err() != nil {
		return said, err
	}
	var remote string
	if run := (*runError)(nil); errors.As(err, &run) {
		remote = remoteText(run.stderr)
	}
	for ref, r := range said {
		if r.flag != '!' {
			continue
		}
		r.text = strings.TrimSpace(r.reason + "\n" + remote)
		said[ref] = r
		switch r.reason {
		case "remote failed to report status", "remote end hung up", "unpacker error", "failed to update ref", "incorrect old value provided":
			// No verdict. "unpacker error" is about what was sent: a mirror
			// that lost some of it sends half a pack. The last two say that
			// somebody moved the reference meanwhile, and that may be this
			// very push: its connection broke, and it was sent once more.
			delete(said, ref)
		}
	}
	if len(said) == 0 {
		return nil, c.remoteError(err)
	}
	return said, nil
}

// parsePush reads one line of push --porcelain: flag, tab, from:to, tab, summary.
func parsePush(line string) (ref string, r reply, ok bool) {
	parts := strings.SplitN(line, "\t", 3)
	if len(parts) != 3 || len(parts[0]) != 1 {
		return "", reply{}, false
	}
	_, ref, ok = strings.Cut(parts[1], ":")
	if !ok {
		return "", reply{}, false
	}
	r.flag = parts[0][0]
	r.local = !strings.HasPrefix(parts[2], "[remote")
	if open := strings.Index(parts[2], "("); open >= 0 {
		r.reason = strings.TrimSuffix(parts[2][open+1:], ")")
	} else {
		r.reason = parts[2]
	}
	return ref, r, true
}

// remoteText is what the host itself wrote during a push.
func remoteText(stderr string) string {
	var text []string
	for line := range strings.Lines(stderr) {
		if said, ok := strings.CutPrefix(line, "remote:"); ok {
			if said = strings.TrimSpace(said); said != "" {
				text = append(text, said)
			}
		}
	}
	return strings.Join(text, "\n")
}
