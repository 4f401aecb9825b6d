package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox/queue"
)

// Town is where a script plays: the pure core in a [World], or the whole
// service with real git, a real Postgres and the simulated GitHub. One file
// tells one story, and it must come out the same in both.
type Town interface {
	Open(number int64, author string, change map[string]string) error
	// OpenOn opens a pull request on top of the branch of another.
	OpenOn(number, below int64, author string, change map[string]string) error
	// DeleteBranch deletes the branch of a pull request.
	DeleteBranch(number int64) error
	Push(number int64, change map[string]string) error
	Close(number int64) error
	Reopen(number int64) error
	Draft(number int64, draft bool) error
	Retarget(number int64, base string) error
	Block(number int64, blocked bool) error
	MergeByHand(number int64) error
	// Green has CI pass on the head of a pull request.
	Green(number int64) error
	PushMain(change map[string]string) error
	Refuse(number int64, why string) error
	// Hang has the network hold back the next call that merges a pull request, until
	// Arrive, and the host refuse the one after it.
	Hang(number int64) error
	Arrive() error

	Merge(number int64, by string, wish Wish) error
	// Stack asks for a pull request with all that it stands on.
	Stack(number int64, by string, wish Wish) error
	// Targets uploads the impacted targets of a pull request's head; the one
	// name "ALL" stands for everything.
	Targets(number int64, names []string) error
	CancelPR(number int64, by string) error
	RestartPR(number int64, by string) error
	Change(c queue.Change) error
	// CI reports a check on the commit of the newest run that tests a pull request.
	CI(number int64, check, result string) error
	// Hedge does so on that of the newest run that tests it without another one.
	Hedge(number, without int64, check, result string) error

	// Quarantine has the repository excuse what quarantined tests do; the jobs
	// of these checks upload test results.
	Quarantine(checks []string) error
	// Results uploads test results for the commit of the newest run that tests a
	// pull request.
	Results(number int64, f queue.TestResults) error

	// Pass lets time pass and waits until nothing is left to do.
	Pass(d time.Duration) error
	// Timeline are all moves so far, oldest first.
	Timeline() ([]queue.Move, error)
	// Window is the present state, with every active entry in it.
	Window() (*queue.Snapshot, error)
	// Main lists what landed on main since the beginning, oldest first: the
	// pull request of each commit, or 0 for somebody's push.
	Main() ([]int64, error)
	// Clock is the time in this town.
	Clock() time.Time
}

// Player plays a script in a town.
type Player struct {
	// Build makes the town once the script has said what queue it wants.
	Build func(settings queue.Settings) (Town, error)
	// More are commands that only this kind of town knows. Each returns what
	// it prints.
	More map[string]func(args []string) (string, error)

	town   Town
	shown  int // moves shown so far
	landed int // commits of main shown so far
}

// Play runs a script and returns it with the output it really has. A script
// is blocks of commands, each followed by "----" and what came of them; lines
// that begin with "#" are the story.
func (p *Player) Play(script string) (string, error) {
	var out strings.Builder
	var commands []string
	skipping := false
	for _, line := range strings.Split(strings.TrimRight(script, "\n"), "\n") {
		switch {
		case line == "----":
			out.WriteString("----\n")
			text, err := p.block(commands)
			if err != nil {
				return "", err
			}
			out.WriteString(text)
			commands, skipping = nil, true
		case skipping && line != "":
		case line == "" || strings.HasPrefix(line, "#"):
			out.WriteString(line + "\n")
			skipping = false
		default:
			out.WriteString(line + "\n")
			commands = append(commands, line)
		}
	}
	if len(commands) > 0 {
		return "", fmt.Errorf("the last commands have no ---- after them: %q", commands)
	}
	return out.String(), nil
}

// block runs the commands of a block and tells what they changed.
func (p *Player) block(commands []string) (string, error) {
	var shown strings.Builder
	for _, c := range commands {
		text, err := p.command(strings.Fields(c))
		if err != nil {
			return "", fmt.Errorf("%s: %w", c, err)
		}
		shown.WriteString(text)
	}
	if p.town == nil {
		return shown.String(), nil
	}
	news, err := p.news()
	return news + shown.String(), err
}

// command runs one command a second after the one before it.
func (p *Player) command(words []string) (string, error) {
	if p.town == nil {
		settings, err := parseSettings(words)
		if err == nil {
			p.town, err = p.Build(settings)
		}
		return "", err
	}
	do, ok := verbs[words[0]]
	if more := p.More[words[0]]; more != nil {
		do, ok = func(_ *Player, args []string) (string, error) { return more(args) }, true
	}
	if !ok {
		return "", fmt.Errorf("there is no command %q", words[0])
	}
	if err := p.town.Pass(time.Second); err != nil {
		return "", err
	}
	text, err := do(p, words[1:])
	if err != nil {
		return "", err
	}
	return text, p.town.Pass(0)
}

// verbs are the commands of a script.
var verbs = map[string]func(p *Player, args []string) (string, error){
	// pr 1 alice a.txt=1: alice opens #1, which changes a.txt
	"pr": func(p *Player, a []string) (string, error) {
		return "", p.town.Open(number(a, 0), a[1], change(a[2:]))
	},
	// pr-on 2 1 alice a.txt=1: alice opens #2 on top of the branch of #1
	"pr-on": func(p *Player, a []string) (string, error) {
		return "", p.town.OpenOn(number(a, 0), number(a, 1), a[2], change(a[3:]))
	},
	// delete-branch 1: somebody deletes the branch of #1
	"delete-branch": func(p *Player, a []string) (string, error) { return "", p.town.DeleteBranch(number(a, 0)) },
	// push 1 a.txt=2: the author pushes to #1
	"push": func(p *Player, a []string) (string, error) { return "", p.town.Push(number(a, 0), change(a[1:])) },
	// push-main a.txt=2: somebody pushes straight to main
	"push-main":     func(p *Player, a []string) (string, error) { return "", p.town.PushMain(change(a)) },
	"close":         func(p *Player, a []string) (string, error) { return "", p.town.Close(number(a, 0)) },
	"reopen":        func(p *Player, a []string) (string, error) { return "", p.town.Reopen(number(a, 0)) },
	"draft":         func(p *Player, a []string) (string, error) { return "", p.town.Draft(number(a, 0), true) },
	"undraft":       func(p *Player, a []string) (string, error) { return "", p.town.Draft(number(a, 0), false) },
	"retarget":      func(p *Player, a []string) (string, error) { return "", p.town.Retarget(number(a, 0), a[1]) },
	"block":         func(p *Player, a []string) (string, error) { return "", p.town.Block(number(a, 0), true) },
	"unblock":       func(p *Player, a []string) (string, error) { return "", p.town.Block(number(a, 0), false) },
	"merge-by-hand": func(p *Player, a []string) (string, error) { return "", p.town.MergeByHand(number(a, 0)) },
	"green":         func(p *Player, a []string) (string, error) { return "", p.town.Green(number(a, 0)) },
	// refuse 1 words: the host will not land #1
	"refuse": func(p *Player, a []string) (string, error) {
		return "", p.town.Refuse(number(a, 0), strings.Join(a[1:], " "))
	},
	// hang 1: the next call that merges #1 hangs in the network, and the host refuses
	// the one after it; arrive: what hung arrives
	"hang":   func(p *Player, a []string) (string, error) { return "", p.town.Hang(number(a, 0)) },
	"arrive": func(p *Player, a []string) (string, error) { return "", p.town.Arrive() },
	// merge 1 2 -p urgent: somebody comments /merge on #1 and #2
	"merge": func(p *Player, a []string) (string, error) { return p.merge(a, Town.Merge) },
	// stack 3 -p high: somebody comments /signalbox stack on #3
	"stack": func(p *Player, a []string) (string, error) { return p.merge(a, Town.Stack) },
	"cancel": func(p *Player, a []string) (string, error) {
		return "", p.town.CancelPR(number(a, 0), "alice")
	},
	"restart": func(p *Player, a []string) (string, error) { return "", p.town.RestartPR(number(a, 0), "alice") },
	// ci 1 success [check]: CI reports on the run that tests #1
	"ci": func(p *Player, a []string) (string, error) {
		check := "ci"
		if len(a) > 2 {
			check = a[2]
		}
		return "", p.town.CI(number(a, 0), check, a[1])
	},
	// hedge 3 2 success: CI reports on the run that tests #3 without #2
	"hedge": func(p *Player, a []string) (string, error) {
		return "", p.town.Hedge(number(a, 0), number(a, 1), "ci", a[2])
	},
	// quarantine ci: from now on failures of quarantined tests are excused, and
	// the jobs of the check ci upload test results
	"quarantine": func(p *Player, a []string) (string, error) { return "", p.town.Quarantine(a) },
	// results 1 Login=quarantined Pay=new: CI uploads what failed in the run that
	// tests #1; see parseResults
	"results": func(p *Player, a []string) (string, error) {
		f, err := parseResults(a[1:])
		if err != nil {
			return "", err
		}
		return "", p.town.Results(number(a, 0), f)
	},
	// targets 1 frontend docs: CI tells what #1 impacts
	"targets": func(p *Player, a []string) (string, error) { return "", p.town.Targets(number(a, 0), a[1:]) },
	"advance": func(p *Player, a []string) (string, error) {
		d, err := time.ParseDuration(a[0])
		if err != nil {
			return "", err
		}
		return "", p.town.Pass(d)
	},
	"set": func(p *Player, a []string) (string, error) {
		c, err := parseChange(a)
		if err != nil {
			return "", err
		}
		return "", p.town.Change(c)
	},
	"show":    (*Player).show,
	"verdict": (*Player).verdict,
	"explain": (*Player).explain,
}

func (p *Player) merge(args []string, ask func(Town, int64, string, Wish) error) (string, error) {
	var wish Wish
	var numbers []int64
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-p":
			i++
			value, ok := queue.ParsePriority(args[i])
			if !ok {
				return "", fmt.Errorf("no priority %q", args[i])
			}
			wish.Priority = &value
		case "--no-batch":
			wish.NoBatch = true
		case "--force":
			wish.Force = true
		case "-t":
			i++
			wish.Title = strings.ReplaceAll(args[i], "_", " ")
		default:
			numbers = append(numbers, number(args, i))
		}
	}
	for _, n := range numbers {
		if err := ask(p.town, n, "alice", wish); err != nil {
			return "", err
		}
	}
	return "", nil
}

// news tells the moves since the last time, pull request by pull request, and
// what landed.
func (p *Player) news() (string, error) {
	moves, err := p.town.Timeline()
	if err != nil {
		return "", err
	}
	window, err := p.town.Window()
	if err != nil {
		return "", err
	}
	told := map[int64][]string{}
	for _, m := range moves[p.shown:] {
		text := fmt.Sprintf("%s (%s)", m.To, m.Reason)
		if r := window.Runs[m.Run]; r != nil && m.To == queue.Testing && len(r.Ahead()) > 0 {
			text += " on" + numbers(r.Ahead())
		}
		told[m.PR] = append(told[m.PR], text)
	}
	p.shown = len(moves)
	var out strings.Builder
	for _, pr := range sortedKeys(told) {
		fmt.Fprintf(&out, "#%d → %s\n", pr, strings.Join(told[pr], " → "))
	}
	main, err := p.town.Main()
	if err != nil {
		return "", err
	}
	if len(main) > p.landed {
		out.WriteString("main +")
		for _, pr := range main[p.landed:] {
			if pr == 0 {
				out.WriteString(" push")
			} else {
				fmt.Fprintf(&out, " #%d", pr)
			}
		}
		out.WriteString("\n")
		p.landed = len(main)
	}
	return out.String(), nil
}

// show draws the queue: the line, then who waits.
func (p *Player) show([]string) (string, error) {
	s, err := p.town.Window()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "queue is %s\n", s.Queue.State)
	for _, id := range slices.Concat(s.Line, s.Parts) {
		g := s.Groups[id]
		out.WriteString("  [")
		for i, m := range g.Members {
			if i > 0 {
				out.WriteString(" ")
			}
			fmt.Fprintf(&out, "#%d", s.Entries[m].Number)
		}
		fmt.Fprintf(&out, "] %s", s.Entries[g.Members[0]].State)
		if r := s.Runs[g.Run]; r != nil && len(r.Ahead()) > 0 {
			out.WriteString(" on" + numbers(r.Ahead()))
		}
		out.WriteString("\n")
		hedges(&out, s, id)
	}
	var free []*queue.Entry
	for _, e := range s.Entries {
		if e.Active() && e.Group == 0 {
			free = append(free, e)
		}
	}
	slices.SortFunc(free, func(a, b *queue.Entry) int {
		if a.State != b.State {
			return -strings.Compare(string(a.State), string(b.State)) // pending first
		}
		return queue.Compare(a, b)
	})
	for _, e := range free {
		fmt.Fprintf(&out, "  #%d %s\n", e.Number, e.State)
	}
	return out.String(), nil
}

// hedges draws the runs that test a group without somebody.
func hedges(out *strings.Builder, s *queue.Snapshot, group queue.GroupID) {
	var lines []string
	for _, r := range s.Runs {
		if r.Group == group && r.Hedge != "" && r.State != queue.Stopped {
			lines = append(lines, fmt.Sprintf("    without #%d: %s on%s\n", s.Entries[r.Hedge].Number, r.State, cmp.Or(numbers(r.Ahead()), " main")))
		}
	}
	slices.Sort(lines)
	out.WriteString(strings.Join(lines, ""))
}

// explain prints what people are told about a pull request.
func (p *Player) explain(args []string) (string, error) {
	s, err := p.town.Window()
	if err != nil {
		return "", err
	}
	e := s.ByPR(number(args, 0))
	if e == nil {
		return "never submitted\n", nil
	}
	x := queue.Explain(s, e, p.town.Clock())
	var out strings.Builder
	for _, c := range x.Conditions {
		mark := "✗"
		if c.Met {
			mark = "✓"
		}
		fmt.Fprintf(&out, "  %s %s\n", mark, c.Message)
	}
	if x.Position > 0 {
		fmt.Fprintf(&out, "  position %d\n", x.Position)
	}
	fmt.Fprintf(&out, "  %s\n", x.WaitsFor)
	return out.String(), nil
}

// verdict prints what the timeline says of the newest result of tests of a
// pull request.
func (p *Player) verdict(args []string) (string, error) {
	moves, err := p.town.Timeline()
	if err != nil {
		return "", err
	}
	told := "not tested\n"
	for _, m := range moves {
		if m.PR != number(args, 0) || m.Run == "" {
			continue
		}
		switch m.To {
		case queue.TestsPassed, queue.PendingFailure, queue.Pending:
			told = fmt.Sprintf("  %s: %s\n", m.To, m.Message)
		}
	}
	return told, nil
}

// failing are the ways in which a script says that a test fails.
var failing = map[string]queue.FailingTest{
	"quarantined": {Quarantined: true, Standing: queue.KnownFlaky},
	"otherwise":   {Quarantined: true, NewFailure: true, Standing: queue.KnownFlaky}, // as nobody has seen it fail
	"flaky":       {Standing: queue.KnownFlaky},                                      // and not quarantined
	"base":        {Standing: queue.FailingOnBase},
	"new":         {Standing: queue.NewlyFailing},
}

// parseResults reads NAME=how for each failing test, and what else there is to
// say: "incomplete", check=NAME (ci unless said, nothing after the = is none),
// job=NAME, attempt=N, upload=N (to send the same again).
func parseResults(args []string) (queue.TestResults, error) {
	f := queue.TestResults{Check: "ci", Job: "job", Attempt: 1, Complete: true}
	for i, a := range args {
		name, value, _ := strings.Cut(a, "=")
		switch name {
		case "incomplete":
			f.Complete = false
		case "check":
			f.Check = value
		case "job":
			f.Job = value
		case "attempt":
			f.Attempt = max(number([]string{value}, 0), 1)
		case "upload":
			f.Upload = number([]string{value}, 0)
		default:
			t, ok := failing[value]
			if !ok {
				return f, fmt.Errorf("word %d: a test fails like none of %v", i, slices.Sorted(maps.Keys(failing)))
			}
			t.ID, t.Name = name, name
			f.Failing = append(f.Failing, t)
		}
	}
	return f, nil
}

func numbers(steps []queue.Step) string {
	var out strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&out, " #%d", s.PR)
	}
	return out.String()
}

func number(args []string, i int) int64 {
	if i >= len(args) {
		return 0
	}
	n, _ := strconv.ParseInt(args[i], 10, 64)
	return n
}

// change reads path=content pairs; a bare path is an empty file, -path deletes.
func change(args []string) map[string]string {
	files := map[string]string{}
	for _, a := range args {
		path, content, _ := strings.Cut(a, "=")
		files[path] = strings.ReplaceAll(content, ",", "\n")
	}
	return files
}

func sortedKeys(m map[int64][]string) []int64 {
	var keys []int64
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
