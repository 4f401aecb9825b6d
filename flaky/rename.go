package flaky

import (
	"slices"
	"strings"
)

// Rename is a test that goes on under another name.
type Rename struct{ From, To Test }

// leastAlike is how alike two names must be, from 0 to 1, to be one test's.
const leastAlike = 0.6

// mostCompared bounds the tests of one suite that are compared with each other:
// where more than that come and go at once, names are made anew each time.
const mostCompared = 200

// Renames matches tests that vanished between two complete runs of the stable
// branch with those that appeared. A pair differs in one place alone (its file
// and class, which often repeat each other, count as one), the two texts there
// are alike, and neither has another candidate that is as good. Whatever is not
// certain is no rename: the test begins anew, which costs some days of
// history, while a wrong match would give a test another one's quarantine.
func Renames(vanished, appeared []Test) []Rename {
	found := matching(vanished, appeared, func(t Test) string { return key(t.File, t.Classname, t.Parent, t.Variant) },
		func(t Test) string { return t.Name })
	moved := matching(without(vanished, found, func(r Rename) Test { return r.From }),
		without(appeared, found, func(r Rename) Test { return r.To }),
		func(t Test) string { return key(t.Name, t.Variant) },
		func(t Test) string { return key(t.File, t.Classname, t.Parent) })
	return append(found, moved...)
}

func key(parts ...string) string { return strings.Join(parts, "\x00") }

func without(tests []Test, found []Rename, side func(Rename) Test) []Test {
	return slices.DeleteFunc(slices.Clone(tests), func(t Test) bool {
		return slices.ContainsFunc(found, func(r Rename) bool { return side(r) == t })
	})
}

// matching pairs tests that agree on what same gives and are alike in what
// changed gives.
func matching(vanished, appeared []Test, same, changed func(Test) string) []Rename {
	type group struct{ from, to []Test }
	groups := map[string]*group{}
	var order []string
	for _, t := range vanished {
		k := same(t)
		if groups[k] == nil {
			groups[k] = &group{}
			order = append(order, k)
		}
		groups[k].from = append(groups[k].from, t)
	}
	for _, t := range appeared {
		if g := groups[same(t)]; g != nil {
			g.to = append(g.to, t)
		}
	}
	var found []Rename
	for _, k := range order {
		g := groups[k]
		if len(g.from) > mostCompared || len(g.to) > mostCompared {
			continue
		}
		for _, from := range g.from {
			to, ok := best(from, g.to, changed)
			if !ok || variesByItself(from.Name, to.Name) {
				continue
			}
			if back, ok := best(to, g.from, changed); ok && back == from {
				found = append(found, Rename{from, to})
			}
		}
	}
	return found
}

// variesByItself reports whether two names are different and differ only in
// parameters, or in what changes from run to run: those are two tests, or tests
// whose names are made anew each time.
func variesByItself(a, b string) bool {
	if a == b {
		return false
	}
	return Normalize(a) == Normalize(b) || strings.ContainsAny(a, "[(") && base(a) == base(b)
}

// base is a name without its parameters.
func base(name string) string {
	if i := strings.IndexAny(name, "[("); i > 0 {
		return name[:i]
	}
	return name
}

// best is the candidate that is most like t, if it is alike enough and no other
// is as much.
func best(t Test, candidates []Test, changed func(Test) string) (Test, bool) {
	var found Test
	top, second := 0.0, 0.0
	for _, c := range candidates {
		switch alike := similarity(changed(t), changed(c)); {
		case alike > top:
			found, top, second = c, alike, top
		case alike > second:
			second = alike
		}
	}
	return found, top >= leastAlike && top-second > 0.05
}

// similarity is 1 for equal texts and 0 for texts that share nothing: twice the
// pairs of neighbouring characters that both have, divided by the pairs of both
// (Dice's coefficient). It looks at the first 1000 bytes.
func similarity(a, b string) float64 {
	a, b = strings.ToLower(a[:min(len(a), 1000)]), strings.ToLower(b[:min(len(b), 1000)])
	if a == b {
		return 1
	}
	if len(a) < 2 || len(b) < 2 {
		return 0
	}
	pairs := map[string]int{}
	for i := 0; i+2 <= len(a); i++ {
		pairs[a[i:i+2]]++
	}
	shared := 0
	for i := 0; i+2 <= len(b); i++ {
		if pairs[b[i:i+2]] > 0 {
			pairs[b[i:i+2]]--
			shared++
		}
	}
	return 2 * float64(shared) / float64(len(a)+len(b)-2)
}
