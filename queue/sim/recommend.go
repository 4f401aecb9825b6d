package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"signalbox/queue"
)

// Choice is one way of setting a queue, and how it did.
type Choice struct {
	Name     string         `json:"name"`
	Settings queue.Settings `json:"-"`
	Row      Row            `json:"figures"`
}

// Advice is what settings a workload asks for.
type Advice struct {
	// Choices are in the order of preference; the first is the advice.
	Choices []Choice `json:"choices"`
	Says    string   `json:"says"`
}

// candidateSettings are those that are tried with so many workers.
func candidateSettings(workers int) []Choice {
	var list []Choice
	add := func(name string, s queue.Settings) { list = append(list, Choice{Name: name, Settings: s}) }
	for _, n := range []int{1, max(workers/2, 1), workers} {
		s := Fixed(n)
		if name := fmt.Sprintf("concurrency %d", n); !slices.ContainsFunc(list, func(c Choice) bool { return c.Name == name }) {
			add(name, s)
		}
	}
	for _, size := range []int64{2, 4, 8, 16} {
		s := Batched(workers, size, 1)
		add(fmt.Sprintf("batches of %d", size), s)
		if short := workers / 4; size > 2 && short > 0 { // many entries in one line fail together
			s.Concurrency, s.BisectionConcurrency = int64(short), int64(workers-short)
			add(fmt.Sprintf("batches of %d, a line of %d", size, short), s)
		}
	}
	add("adaptive", Adaptive(workers))
	for _, base := range slices.Clone(list) {
		if base.Settings.Concurrency < 2 {
			continue
		}
		add(base.Name+", optimistic with depth 2", Patient(base.Settings))
	}
	return list
}

// Recommend tries settings on workloads, which belong to one cell, and says
// which suit them. It prefers what throws out fewer good changes, then what is
// fast at the median and at the 95 % quantile, and of those within a tenth of the
// fastest the one that needs the least of CI.
func Recommend(ctx context.Context, workloads []*Workload, workers int) (Advice, error) {
	choices := candidateSettings(workers)
	f := field{played: unwatched}
	for _, c := range choices {
		f.add(workloads[0].Cell, workloads, Engine(c.Name, c.Settings))
	}
	rows, err := f.play(ctx)
	if err != nil {
		return Advice{}, err
	}
	for i := range choices {
		choices[i].Row = rows[i]
	}
	return advise(choices), nil
}

// speed is what a choice is judged by first: the mean of median and 95 % quantile,
// in minutes.
func (c Choice) speed() float64 { return (c.Row.Minutes50.Value + c.Row.Minutes95.Value) / 2 }

func advise(choices []Choice) Advice {
	fewest := slices.MinFunc(choices, func(a, b Choice) int { return cmp.Compare(a.Row.Falsely.Value, b.Row.Falsely.Value) }).Row.Falsely.Value
	careful := func(c Choice) bool { return c.Row.Falsely.Value <= fewest+0.002 }
	fastest := 0.0
	for _, c := range choices {
		if careful(c) && (fastest == 0 || c.speed() < fastest) {
			fastest = c.speed()
		}
	}
	near := func(c Choice) bool { return careful(c) && c.speed() <= 1.1*fastest }
	slices.SortStableFunc(choices, func(a, b Choice) int {
		switch {
		case careful(a) != careful(b):
			return yesFirst(careful(a))
		case near(a) != near(b):
			return yesFirst(near(a))
		case near(a):
			return cmp.Compare(a.Row.CIMinutes.Value, b.Row.CIMinutes.Value)
		}
		return cmp.Compare(a.speed(), b.speed())
	})
	best := choices[0]
	return Advice{Choices: choices, Says: fmt.Sprintf("%s: half of the pull requests are through after %.0f minutes, 95 of 100 after %.0f, and each that lands takes %.1f minutes of CI.",
		best.Name, best.Row.Minutes50.Value, best.Row.Minutes95.Value, best.Row.CIMinutes.Value)}
}

func yesFirst(yes bool) int {
	if yes {
		return -1
	}
	return 1
}
