package report

import (
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// goEvent is a line of go test -json, as "go doc test2json" describes it.
type goEvent struct {
	Time    string
	Action  string
	Package string
	Test    string
	Elapsed *float64
	Output  string
}

// maxRunning bounds the tests of which output is collected at one time.
const maxRunning = 100_000

// goTest reads go test -json.
type goTest struct {
	options  Options
	each     func(*Case) error
	notes    Notes
	decoder  decoder
	packages map[string]*goPackage
	some     bool
	running  int
}

// goPackage is a package whose result is not known yet. Its cases are kept until
// then, because only its last line says that they are not new ("(cached)").
type goPackage struct {
	done   []Case
	open   map[string]*kept // what the running tests printed
	cached bool
	failed bool // one of its tests
}

// ScanGoTest reads the output of go test -json. Lines that are no JSON are left
// out: the go command prints some of its own.
func ScanGoTest(r io.Reader, o Options, each func(*Case) error) (Notes, error) {
	g := &goTest{options: o, each: each, packages: map[string]*goPackage{}}
	ended, err := lines(r, func(line []byte) error {
		var e goEvent
		if line[0] != '{' {
			return nil
		}
		if json.Unmarshal(line, &e) != nil || e.Action == "" {
			g.notes.add(Malformed, string(line[:min(len(line), 80)]))
			return nil
		}
		g.some = true
		return g.event(e)
	}, func() { g.notes.add(Malformed, "a line of more than 4 MiB") })
	if err != nil {
		return g.notes, err
	}
	return g.notes, g.finish(ended)
}

// finish looks at the packages that have no result.
func (g *goTest) finish(ended bool) error {
	switch {
	case !g.some && len(g.notes) == 0:
		g.notes.add(Empty, "")
	case !ended || len(g.packages) > 0:
		g.notes.add(Truncated, "")
	}
	for _, name := range slices.Sorted(maps.Keys(g.packages)) {
		if err := g.give(g.packages[name]); err != nil {
			return err
		}
	}
	if g.decoder.replaced > 0 {
		g.notes.addMany(BadCharacters, g.decoder.replaced, "")
	}
	return nil
}

func (g *goTest) event(e goEvent) error {
	if e.Package == "" {
		return nil // a build, or a command
	}
	p := g.packages[e.Package]
	if p == nil {
		p = &goPackage{open: map[string]*kept{}}
		g.packages[e.Package] = p
	}
	switch e.Action {
	case "run":
		g.running++
		p.open[e.Test] = nil // most print nothing of interest
	case "output":
		g.output(p, e)
	case "pass", "fail", "skip":
		if e.Test != "" {
			return g.ends(p, e)
		}
		delete(g.packages, e.Package)
		if e.Action == "fail" && (!p.failed || len(p.open) > 0) {
			g.notes.add(SuiteFailed, e.Package)
		}
		return g.give(p)
	}
	return nil
}

func (g *goTest) output(p *goPackage, e goEvent) {
	if e.Test == "" {
		p.cached = p.cached || strings.HasPrefix(e.Output, "ok  \t") && strings.HasSuffix(strings.TrimSpace(e.Output), "\t(cached)")
		return
	}
	k, running := p.open[e.Test]
	if !running || g.running > maxRunning {
		return
	}
	if k == nil {
		k = &kept{d: &g.decoder, limit: failureEnds}
		p.open[e.Test] = k
	}
	k.add([]byte(e.Output), false)
}

// ends takes the result of a test.
func (g *goTest) ends(p *goPackage, e goEvent) error {
	c := Case{Classname: e.Package, Parent: e.Package, Name: g.decoder.finish(e.Test), Reruns: Attempts, Seconds: -1}
	if e.Elapsed != nil && *e.Elapsed >= 0 {
		c.Seconds = *e.Elapsed
	}
	if e.Time != "" {
		c.At = g.options.plausible(e.Time, &g.notes).Add(-time.Duration(max(c.Seconds, 0) * float64(time.Second)))
	}
	switch e.Action {
	case "pass":
		c.Outcome = Passed
	case "skip":
		c.Outcome = Skipped
	case "fail":
		c.Outcome, p.failed = Failed, true
		c.Failure.Message = "Failed"
		if k := p.open[e.Test]; k != nil {
			c.Failure.Text = strings.TrimSpace(k.text().String())
		}
	}
	if _, running := p.open[e.Test]; running {
		delete(p.open, e.Test)
		g.running--
	}
	p.done = append(p.done, c)
	if len(p.done) > MaxCases {
		return ErrTooMany
	}
	return nil
}

// give gives the cases of a package away, unless they are of an earlier run.
func (g *goTest) give(p *goPackage) error {
	g.running -= len(p.open)
	if p.cached {
		g.notes.addMany(CachedResults, max(len(p.done), 1), "")
		return nil
	}
	for i := range p.done {
		if err := g.each(&p.done[i]); err != nil {
			return err
		}
	}
	return nil
}
