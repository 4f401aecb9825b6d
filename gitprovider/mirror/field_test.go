package mirror

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/gitprovider"
	"signalbox/queue"
)

// Cases from the field about commits and branches. The test's name has the case's
// number.

// What is tested of a batch is all of it: the tree has every member's change, and
// the commits are those of the members and nobody else's.
func TestBC08ABatchTestsEveryMember(t *testing.T) {
	t.Parallel()
	for _, method := range []queue.MergeMethod{queue.MergeCommit, queue.Squash, queue.Rebase} {
		t.Run(string(method), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var steps []queue.StepSpec
			for n := int64(1); n <= 3; n++ {
				steps = append(steps, w.pull(n, fmt.Sprint("change ", n), fmt.Sprintf("%d.txt", n), "x\n"))
			}
			made := w.built(buildRun("r1", method, 3, steps...))
			w.publish(made)
			if got := w.run(w.origin, "git", "diff", "--name-only", "main", made.Commit()); got != "1.txt\n2.txt\n3.txt" {
				t.Errorf("the tree has %q", got)
			}
			got := w.run(w.origin, "git", "log", "--reverse", "--first-parent", "--format=%s", "main.."+made.Commit())
			for n, line := range strings.Split(got, "\n") {
				if !strings.Contains(line, fmt.Sprint("change ", n+1)) {
					t.Errorf("commit %d is %q", n+1, line)
				}
			}
			if strings.Count(got, "\n") != 2 {
				t.Errorf("commits:\n%s", got)
			}
		})
	}
}

// A branch that is not there is made, one that moved is a reason to decide again,
// and a rule that is in the way is named: three things, never one.
func TestBC38RefusalsOfARefAreToldApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main := w.at("refs/heads/main")
	made := w.built(buildRun("r1", queue.Squash, 1, w.pull(1, "one", "1.txt", "1\n")))
	for range 2 { // made, and then made over
		w.publish(made)
	}
	other := w.built(buildRun("r2", queue.Squash, 1, w.pull(2, "two", "2.txt", "2\n")))
	moved := w.m.Advance(soon(t), w.src, "main", made.Commit(), other.Commit())
	if gitprovider.KindOf(moved) != gitprovider.Stale {
		t.Errorf("moved: %v", moved)
	}
	gone := w.m.Advance(soon(t), w.src, "nowhere", main, made.Commit())
	if gitprovider.KindOf(gone) != gitprovider.Stale {
		t.Errorf("gone: %v", gone)
	}
	hook := "#!/bin/sh\necho 'error: GH013: Repository rule violations found for refs/heads/main.' >&2\necho '- Required status check \"X\" is expected.' >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(w.origin, "hooks", "pre-receive"), []byte(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	var known *gitprovider.Error
	err := w.m.Advance(soon(t), w.src, "main", main, made.Commit())
	if !errors.As(err, &known) || known.Kind != gitprovider.Denied || !strings.Contains(known.Message, `"X" is expected`) {
		t.Errorf("refused: %v", err)
	}
}

// A pull request of an account that is gone, and one without commits of its own,
// still make a commit with one person's name and address.
func TestBC62ADeletedAuthorStillMakesACommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.pull(1, "one", "1.txt", "1\n")
	s.Author = queue.Actor{}
	w.onMain()
	none := w.open(2, "nothing of its own")
	none.Author = queue.Actor{}
	for _, c := range []struct {
		step queue.StepSpec
		want string
	}{{s, "Alice <7+alice@users.noreply.github.com>"}, {none, "signalbox[bot] <signalbox[bot]@users.noreply.github.com>"}} {
		made := w.built(buildRun(fmt.Sprint("r", c.step.PR), queue.Squash, 1, c.step))
		w.publish(made)
		if got := w.run(w.origin, "git", "log", "-1", "--format=%an <%ae>", made.Commit()); got != c.want {
			t.Errorf("pull request %d is by %s", c.step.PR, got)
		}
	}
}
