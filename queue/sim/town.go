package sim

import (
	"fmt"
	"time"

	"signalbox/queue"
)

// The methods that make a World a Town, where their names differ.

var _ Town = (*World)(nil)

// PushMain pushes a change straight to main.
func (w *World) PushMain(change map[string]string) error {
	w.PushTarget(change)
	return nil
}

// Merge submits a pull request, as its comment does.
func (w *World) Merge(number int64, _ string, wish Wish) error { return w.Submit(number, wish) }

// Stack submits a stack, as its comment does.
func (w *World) Stack(number int64, _ string, wish Wish) error { return w.SubmitStack(number, wish) }

// Targets uploads impacted targets.
func (w *World) Targets(number int64, names []string) error {
	p := w.host.pulls[number]
	if p == nil {
		return fmt.Errorf("there is no #%d", number)
	}
	set := queue.NewTargetSet(names)
	if len(names) == 1 && names[0] == "ALL" {
		set = queue.Everything
	}
	w.sets = append(w.sets, set)
	w.newest[p.Head] = queue.TargetsID(len(w.sets))
	w.tell(queue.TargetsUploaded{PR: number, Head: p.Head})
	return nil
}

// CancelPR cancels.
func (w *World) CancelPR(number int64, by string) error {
	w.Cancel(number, by)
	return nil
}

// RestartPR restarts.
func (w *World) RestartPR(number int64, by string) error {
	w.Restart(number, by)
	return nil
}

// Change changes the queue.
func (w *World) Change(c queue.Change) error {
	w.Set(c)
	return nil
}

// CI reports on the newest run that tests a pull request.
func (w *World) CI(number int64, check, result string) error {
	r := w.RunOf(number)
	if r == nil || r.Commit == "" {
		return fmt.Errorf("no run tests #%d", number)
	}
	w.Report(r.Commit, check, result)
	return nil
}

// Hedge reports on the newest run that tests a pull request without another.
func (w *World) Hedge(number, without int64, check, result string) error {
	r := w.HedgeOf(number, without)
	if r == nil || r.Commit == "" {
		return fmt.Errorf("no run tests #%d without #%d", number, without)
	}
	w.Report(r.Commit, check, result)
	return nil
}

// Quarantine has the repository excuse what quarantined tests do.
func (w *World) Quarantine(checks []string) error {
	w.state.TestChecks = checks
	return nil
}

// Results uploads test results for the newest run that tests a pull request.
func (w *World) Results(number int64, f queue.TestResults) error {
	r := w.RunOf(number)
	if r == nil || r.Commit == "" {
		return fmt.Errorf("no run tests #%d", number)
	}
	f.Commit = r.Commit
	w.Upload(f)
	return nil
}

// Pass lets time pass.
func (w *World) Pass(d time.Duration) error { return w.Advance(d) }

// Timeline are all moves so far.
func (w *World) Timeline() ([]queue.Move, error) { return w.Moves, nil }

// Window is the whole queue.
func (w *World) Window() (*queue.Snapshot, error) { return w.state, nil }

// Main lists what landed on main.
func (w *World) Main() ([]int64, error) {
	var list []int64
	for _, c := range w.host.history("main")[1:] {
		list = append(list, c.pr)
	}
	return list, nil
}

// Clock is the virtual time.
func (w *World) Clock() time.Time { return w.Now }
