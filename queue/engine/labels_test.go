package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/gitprovider"
	"signalbox/queue"
)

// Somebody gives a pull request the label that queues, and takes it away again.

// labels has label commands on, with that label.
func labels(t *testing.T, name string) *stage {
	t.Helper()
	s := newStage(t, nil)
	s.change(1, func(w *queue.Snapshot) { w.Queue.LabelCommandsEnabled, w.Queue.EnqueueingLabel = true, name })
	s.open(7, "main")
	return s
}

// gives has somebody give pull request 7 a label, or take it away.
func (s *stage) gives(by queue.Actor, name string, gone bool) {
	s.t.Helper()
	pr := s.prs[7]
	pr.Labels = slices.DeleteFunc(slices.Clone(pr.Labels), func(l string) bool { return l == name })
	if !gone {
		pr.Labels = append(pr.Labels, name)
	}
	s.asks(queue.CommandAsked{PR: 7, By: by, Label: &queue.LabelMoved{Name: name, Gone: gone, Base: pr.Base}})
}

// The case of a label does not matter to the host, so not to us (BC-79).
func TestBC79ALabelQueuesInAnyCase(t *testing.T) {
	t.Parallel()
	s := labels(t, "Queue")
	s.gives(wil, "queue", false)
	if e := s.entry(1, 7); e.State != queue.Testing || e.SubmittedBy.Login != "wil" {
		t.Errorf("entry is %q, submitted by %s, want testing, by @wil", e.State, e.SubmittedBy)
	}
	if got := s.on(7); len(got) != 1 || !strings.Contains(got[0], "0000007") {
		t.Errorf("comments = %q, want the sticky one, which names the commit", got)
	}
}

func TestTakingTheLabelAwayCancels(t *testing.T) {
	t.Parallel()
	s := labels(t, "queue")
	s.gives(wil, "queue", false)
	s.gives(ada, "queue", true)
	if e := s.entry(1, 7); e.State != queue.Cancelled || e.Reason != queue.CancelledByUser || !strings.Contains(e.Message, "@ada") {
		t.Errorf("entry is %s (%s) %q, want cancelled by @ada", e.State, e.Reason, e.Message)
	}
	before := len(s.on(7))
	s.clock.advance(time.Minute)
	s.gives(wil, "queue", false)
	s.says("wil", 7, 70, queue.Command{Verb: queue.VerbCancel})
	s.gives(wil, "queue", true) // there is nothing to cancel any more, and nobody needs to be told
	if got := len(s.on(7)); got != before {
		t.Errorf("comments = %d, want %d as before", got, before)
	}
}

func TestAnEndingTakesTheLabelAwaySoThatItCanBeGivenAgain(t *testing.T) {
	t.Parallel()
	s := labels(t, "queue")
	s.prs[7].Labels = []string{"bug"}
	s.gives(wil, "queue", false)
	s.ci(7, "failure")
	if e := s.entry(1, 7); e.State != queue.Failed {
		t.Fatalf("entry is %s, want failed", e.State)
	}
	if got := s.prs[7].Labels; !slices.Equal(got, []string{"bug"}) {
		t.Errorf("labels = %q, want those of others alone", got)
	}
}

func TestALabelOfSomebodyWithoutTheRightQueuesNothing(t *testing.T) {
	t.Parallel()
	s := labels(t, "queue")
	s.gives(rea, "queue", false)
	if e := s.entry(1, 7); e.State != queue.Never {
		t.Errorf("entry is %s, want none", e.State)
	}
	if got := s.on(7); len(got) != 1 || !strings.Contains(got[0], "You need write access") {
		t.Errorf("comments = %q, want one that says which right is needed", got)
	}
	s.people["other[bot]"] = s.people["ada"]
	s.gives(other, "queue", false) // a bot that is not on the list
	if e := s.entry(1, 7); e.State != queue.Never {
		t.Errorf("a bot queued it: entry is %s", e.State)
	}
}

func TestOtherLabelsAskForNothingAndCostNothing(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*stage{"another label": labels(t, "queue"), "label commands are off": newStage(t, nil)} {
		if s.prs[7] == nil {
			s.open(7, "main")
		}
		label := map[bool]string{true: "signalbox", false: "bug"}[name == "label commands are off"]
		s.gives(ada, label, false)
		s.gives(ada, label, true)
		if e := s.entry(1, 7); e.State != queue.Never {
			t.Errorf("%s: entry is %s, want none", name, e.State)
		}
		if n := s.calls["PullRequest"] + s.calls["Permission"] + s.calls["Notice"]; n != 0 {
			t.Errorf("%s: %d calls to the host, want none", name, n)
		}
	}
}

func TestStateLabelsFollowTheState(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.change(1, func(w *queue.Snapshot) { w.Queue.StateLabelsEnabled = true })
	s.open(7, "main").Labels = []string{"bug"}
	want := func(label string) {
		t.Helper()
		got := slices.DeleteFunc(slices.Clone(s.prs[7].Labels), func(l string) bool { return l == "bug" })
		if label == "" && len(got) == 0 || len(got) == 1 && got[0] == label {
			return
		}
		t.Errorf("labels of ours = %q, want %q", got, label)
	}
	s.ready[7] = queue.NotMergeable
	s.says("wil", 7, 70, merges(queue.Command{}))
	want("signalbox: waiting")
	s.ready[7] = queue.Mergeable
	s.learn(queue.MergeabilitySeen{PR: 7, Head: s.prs[7].Head, Value: queue.Mergeable})
	want("signalbox: testing")
	s.says("wil", 7, 71, queue.Command{Verb: queue.VerbCancel})
	want("")
	s.clock.advance(time.Minute)
	s.says("wil", 7, 72, merges(queue.Command{}))
	s.ci(7, "failure")
	want("signalbox: failed")
}

// --force and urgent priority take the right that the operator says.
func TestTheRightToForceIsASetting(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *Config) { c.Privileged = gitprovider.WritePermission })
	s.open(7, "main")
	s.ready[7] = queue.NotMergeable
	s.says("wil", 7, 70, merges(queue.Command{Force: true}))
	if e := s.entry(1, 7); !e.Forced || e.State != queue.Testing {
		t.Errorf("entry is %s, forced %v, want testing by force", e.State, e.Forced)
	}
}
