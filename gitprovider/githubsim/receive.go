package githubsim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const zeroSHA = "0000000000000000000000000000000000000000"

// pushCommand is one line of a push: what the client wants to become of a ref.
type pushCommand struct {
	old, new, ref string // old and new are "" for "does not exist"
	// merges: there are merge commits among those it brings, as far as the
	// repository has them before the push is taken.
	merges bool
}

// parsePush reads the command list at the start of a push and the
// capabilities that the client announced.
func parsePush(body []byte) (commands []pushCommand, capabilities string, err error) {
	for {
		if len(body) < 4 {
			return nil, "", fmt.Errorf("push ends before its commands do")
		}
		n, err := strconv.ParseUint(string(body[:4]), 16, 16)
		if err != nil || n > 0 && n < 4 || int(n) > len(body) {
			return nil, "", fmt.Errorf("malformed push")
		}
		if n == 0 {
			return commands, capabilities, nil
		}
		line := string(body[4:n])
		body = body[n:]
		if strings.HasPrefix(line, "shallow ") {
			continue
		}
		line, caps, found := strings.Cut(line, "\x00")
		if found {
			capabilities = caps
		}
		words := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(words) != 3 || len(words[0]) != 40 || len(words[1]) != 40 {
			return nil, "", fmt.Errorf("malformed push command")
		}
		clean := func(sha string) string {
			if sha == zeroSHA {
				return ""
			}
			return sha
		}
		commands = append(commands, pushCommand{old: clean(words[0]), new: clean(words[1]), ref: words[2]})
	}
}

// receivePush checks a push against the rules of its branches, has git take
// it, and then does what GitHub does after a push.
func (s *Server) receivePush(w http.ResponseWriter, r *http.Request, g *gitCall, who caller, rp *repo, body io.Reader) {
	data, err := io.ReadAll(body)
	if err != nil {
		http.Error(w, "the push could not be read", http.StatusBadRequest)
		return
	}
	if string(data) == "0000" { // git's probe before a large push
		if err := s.httpBackend(w, r, g, who, rp, bytes.NewReader(data), nil); err != nil {
			s.log.Warn("serve git", "repo", g.repo, "error", err)
		}
		return
	}
	commands, capabilities, err := parsePush(data)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	unlock := rp.lockPushing()
	defer unlock()
	refusals, config := s.judgePush(who, rp, commands)
	if len(refusals) == 0 {
		if refusals, err = s.judgeContent(r.Context(), who, rp, commands, data); err != nil {
			s.log.Warn("look into push", "repo", g.repo, "error", err)
			http.Error(w, "the push could not be read", http.StatusBadRequest)
			return
		}
	}
	if len(refusals) > 0 {
		refusePush(w, commands, refusals, capabilities)
		return
	}
	out := newHeld()
	if err := s.httpBackend(out, r, g, who, rp, bytes.NewReader(data), config); err != nil {
		s.log.Warn("take push", "repo", g.repo, "error", err)
	}
	ctx := context.WithoutCancel(r.Context())
	changes, err := rp.afterPush(commands)
	if err == nil {
		err = s.refsChanged(ctx, rp, who.account, changes)
	}
	if err != nil {
		s.log.Error("act on push", "repo", g.repo, "error", err)
	}
	out.send(w)
}

// lockPushing takes the right to move refs of a repository, and of its parent
// for the heads of pull requests there.
func (r *repo) lockPushing() (unlock func()) {
	r.pushing.Lock()
	if r.parent == nil {
		return r.pushing.Unlock
	}
	r.parent.pushing.Lock()
	return func() { r.parent.pushing.Unlock(); r.pushing.Unlock() }
}

// judgePush asks the rules about every command of a push. It returns the
// refusals by ref, and configuration by which git itself is to refuse what
// only it can see.
func (s *Server) judgePush(who caller, rp *repo, commands []pushCommand) (map[string][]string, map[string]string) {
	for i := range commands {
		commands[i].merges = rp.bringsMerges(commands[i])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	refusals, config := map[string][]string{}, map[string]string{}
	for _, c := range commands {
		branch, ok := strings.CutPrefix(c.ref, "refs/heads/")
		if !ok {
			continue
		}
		why, forwardOnly := s.pushViolations(who, rp, branch, c)
		if len(why) > 0 {
			refusals[c.ref] = why
		}
		if forwardOnly {
			config["receive.denyNonFastForwards"] = "true"
		}
	}
	return refusals, config
}

// bringsMerges reports whether a push brings merge commits that are known.
func (r *repo) bringsMerges(c pushCommand) bool {
	if c.old == "" || c.new == "" {
		return false
	}
	fresh, err := r.git.between(c.old, c.new)
	return err == nil && slices.ContainsFunc(fresh, func(k *commit) bool { return len(k.Parents) > 1 })
}

// refusePush answers a push in git's protocol without asking git: nothing of
// it is taken.
func refusePush(w http.ResponseWriter, commands []pushCommand, refusals map[string][]string, capabilities string) {
	var remote, report bytes.Buffer
	packet := func(b *bytes.Buffer, line string) { fmt.Fprintf(b, "%04x%s", len(line)+4, line) }
	packet(&report, "unpack ok\n")
	for _, c := range commands {
		why, refused := refusals[c.ref]
		if !refused {
			packet(&report, "ng "+c.ref+" pre-receive hook declined\n")
			continue
		}
		if only, ok := strings.CutPrefix(why[0], reasonMark); ok {
			packet(&report, "ng "+c.ref+" "+only+"\n")
			continue
		}
		if strings.HasPrefix(why[0], sizeMark) {
			for _, line := range why {
				fmt.Fprintf(&remote, "error: %s\n", strings.TrimPrefix(line, sizeMark))
			}
			remote.WriteString("error: GH001: Large files detected. You may want to try Git Large File Storage - https://git-lfs.github.com.\n")
			packet(&report, "ng "+c.ref+" pre-receive hook declined\n")
			continue
		}
		code, reason := "GH013: Repository rule violations found for ", "push declined due to repository rule violations"
		if strings.HasPrefix(why[0], classicMark) {
			code, reason = "GH006: Protected branch update failed for ", "protected branch hook declined"
		}
		fmt.Fprintf(&remote, "error: %s%s.\n\n", code, c.ref)
		for _, line := range why {
			fmt.Fprintf(&remote, "- %s\n\n", strings.TrimPrefix(line, classicMark))
		}
		packet(&report, "ng "+c.ref+" "+reason+"\n")
	}
	report.WriteString("0000")
	w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
	w.Header().Set("Cache-Control", "no-cache")
	if !strings.Contains(capabilities, "side-band-64k") {
		w.Write(report.Bytes())
		return
	}
	var out bytes.Buffer
	for _, part := range []struct {
		band string
		text *bytes.Buffer
	}{{"\x02", &remote}, {"\x01", &report}} {
		for part.text.Len() > 0 {
			packet(&out, part.band+string(part.text.Next(60_000)))
		}
	}
	out.WriteString("0000")
	w.Write(out.Bytes())
}

// afterPush reads which of the commanded refs really moved. rp.pushing is held.
func (r *repo) afterPush(commands []pushCommand) ([]refChange, error) {
	var changes []refChange
	for _, c := range commands {
		if checkRefName(c.ref) != nil {
			continue // git refused it too
		}
		now, _, _, err := r.git.cat.object(c.ref)
		if err != nil && !errors.Is(err, errMissing) {
			return changes, fmt.Errorf("read refs after push: %w", err)
		}
		if old := r.refs[c.ref]; now != old {
			changes = append(changes, refChange{c.ref, old, now})
		}
	}
	return changes, nil
}
