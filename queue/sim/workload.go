package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"
)

// Cell is one point of the grid: what a queue is asked to do. The zero values
// of what is not named mean "none of it".
type Cell struct {
	Name string `json:"name,omitempty"`
	// PerHour is how many changes arrive in an hour, Workers how many runs CI
	// takes at once.
	PerHour float64 `json:"perHour"`
	Workers int     `json:"workers"`
	// Fails is the chance that a change fails by itself, Breaks that two which
	// overlap break only together, Flakes that a run fails for no reason.
	Fails  float64 `json:"fails"`
	Breaks float64 `json:"breaks,omitempty"`
	Flakes float64 `json:"flakes,omitempty"`
	// Overlaps is how many of the changes that arrive during one typical test a
	// change overlaps; 0 = single mode, where it overlaps all of them.
	Overlaps float64 `json:"overlaps,omitempty"`
	// Zipf has targets chosen with that exponent, a few of them by many; 0 = evenly.
	Zipf float64 `json:"zipf,omitempty"`
	// Roots is the share of changes that impact everything.
	Roots float64 `json:"roots,omitempty"`
	// Test says how long tests take.
	Test Length `json:"test"`
	// Fixed is the share of a run's cost that does not grow with the number of
	// changes tested together; 1 = none of it does. 0 stands for 1.
	Fixed float64 `json:"fixed,omitempty"`
	// Arrive is "poisson" (also ""), "diurnal" (five times as many at noon as at
	// midnight) or "burst" (burstSize at once, and as many again when so many would
	// have come).
	Arrive string `json:"arrive,omitempty"`
	// Predictor is how often it is known beforehand whether a change will fail
	// by itself; 0 = nothing is known but how many do.
	Predictor float64 `json:"predictor,omitempty"`
	// Delay is the time from an event to what is done about it, Abort that in which
	// a run that is stopped keeps its worker.
	Delay time.Duration `json:"delay,omitempty"`
	Abort time.Duration `json:"abort,omitempty"`
	// Changes are measured after Warm others.
	Changes int `json:"changes"`
	Warm    int `json:"warm,omitempty"`
}

// Length is a distribution of durations.
type Length struct {
	// Minutes is the median.
	Minutes float64 `json:"minutes"`
	// Sigma is that of a lognormal distribution, 0 = always the same; Most cuts
	// it off, 0 = nowhere.
	Sigma float64 `json:"sigma,omitempty"`
	Most  float64 `json:"most,omitempty"`
	// Slow is the share of changes that take SlowMinutes instead.
	Slow        float64 `json:"slow,omitempty"`
	SlowMinutes float64 `json:"slowMinutes,omitempty"`
}

// Change is one pull request of a workload. What it does to a tree is fixed
// beforehand, so that every policy meets the same truth.
type Change struct {
	At      time.Duration // when it is submitted and ready
	Test    time.Duration // how long its tests take
	Bad     bool          // fails by itself
	All     bool          // impacts everything
	Targets []int         // what it impacts, in parallel mode; sorted
	// Risk is the chance that it fails as a predictor puts it: of those with
	// the same risk, that share does fail by itself.
	Risk float64

	before []int // earlier changes that it overlaps, in parallel mode
	breaks []int // changes, earlier and later, that it fails with
}

// Workload is a list of changes in the order of their arrival.
type Workload struct {
	Cell    Cell
	Seed    uint64
	Changes []Change
	// lanes: only what shares targets overlaps (parallel mode).
	lanes bool
}

// burstSize is how many changes come at once where they come in bursts.
const burstSize = 200

// branchAge is how far behind main a branch is when it is submitted: it may
// break with what was submitted so shortly before it, and with nothing older,
// which its author had.
const branchAge = time.Hour

// Generate makes the workload of a cell and a seed: always the same one.
func Generate(c Cell, seed uint64) *Workload {
	r := rand.New(rand.NewPCG(seed, 0x51611a1b0c))
	w := &Workload{Cell: c, Seed: seed, Changes: make([]Change, c.Warm+c.Changes), lanes: c.Overlaps > 0}
	arrive := arrivals(c, r)
	targets := anyTargets(c)
	for i := range w.Changes {
		x := &w.Changes[i]
		x.At, x.Test = arrive(i), c.Test.draw(r)
		x.Bad = r.Float64() < c.Fails
		x.All = c.Overlaps > 0 && r.Float64() < c.Roots
		x.Risk = c.risk(x.Bad, r.Float64())
		if c.Overlaps > 0 && !x.All {
			x.Targets = targets(r)
		}
	}
	w.relate()
	return w
}

// risk is what the predictor says of a change. It answers "fails" or "passes"
// and is right Predictor of the time for either kind; the risk is what that
// answer is worth where Fails of all changes fail.
func (c Cell) risk(bad bool, luck float64) float64 {
	if c.Predictor <= 0 {
		return c.Fails
	}
	right, p := c.Predictor, c.Fails
	saysFails := bad == (luck < right)
	if saysFails {
		return safeDivide(p*right, p*right+(1-p)*(1-right))
	}
	return safeDivide(p*(1-right), p*(1-right)+(1-p)*right)
}

func safeDivide(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// draw draws one duration.
func (l Length) draw(r *rand.Rand) time.Duration {
	m := l.Minutes
	if normal := r.NormFloat64(); l.Sigma > 0 {
		m *= math.Exp(l.Sigma * normal)
	}
	if l.Most > 0 {
		m = min(m, l.Most)
	}
	if r.Float64() < l.Slow {
		m = l.SlowMinutes
	}
	return time.Duration(m * float64(time.Minute)).Round(time.Second)
}

// mean is the mean duration, in minutes, near enough.
func (l Length) mean() float64 {
	m := l.Minutes * math.Exp(l.Sigma*l.Sigma/2)
	return m*(1-l.Slow) + l.SlowMinutes*l.Slow
}

// arrivals tells when each change arrives.
func arrivals(c Cell, r *rand.Rand) func(int) time.Duration {
	at := 0.0 // hours
	return func(i int) time.Duration {
		switch c.Arrive {
		case "burst": // each within a minute or so
			if i%burstSize == 0 {
				at = float64(i) / c.PerHour
			}
			at += r.ExpFloat64() / 60 / burstSize
		case "diurnal": // a day of the rates 1 to 5, with the same mean
			for {
				at += r.ExpFloat64() / (c.PerHour * 5 / 3)
				rate := (3 - 2*math.Cos(at/24*2*math.Pi)) / 5
				if r.Float64() < rate {
					break
				}
			}
		default:
			at += r.ExpFloat64() / c.PerHour
		}
		return time.Duration(at * float64(time.Hour)).Round(time.Second)
	}
}

// anyTargets chooses one to three targets of so many that a change overlaps as
// many others as the cell says.
func anyTargets(c Cell) func(*rand.Rand) []int {
	const meanPairs = 1.5 * 1.5 // pairs of targets of two changes
	during := c.PerHour * c.Test.Minutes / 60
	same := c.Overlaps / during / meanPairs // the chance that two targets are one
	weights := func(n int) (total, squares float64) {
		for k := 1; k <= n; k++ {
			v := math.Pow(float64(k), -c.Zipf)
			total += v
			squares += v * v
		}
		return total, squares
	}
	n := 1 + sort.Search(200_000, func(n int) bool {
		if c.Zipf == 0 {
			return 1/float64(n+1) <= same
		}
		total, squares := weights(n + 1)
		return squares/total/total <= same || n > 5_000
	})
	total, _ := weights(n)
	up := make([]float64, n)
	sum := 0.0
	for k := range up {
		sum += math.Pow(float64(k+1), -c.Zipf) / total
		up[k] = sum
	}
	return func(r *rand.Rand) []int {
		count := 1
		if u := r.Float64(); u > 0.9 {
			count = 3
		} else if u > 0.6 {
			count = 2
		}
		var set []int
		for range count {
			set = append(set, min(sort.SearchFloat64s(up, r.Float64()), n-1))
		}
		slices.Sort(set)
		return slices.Compact(set)
	}
}

// relate finds who overlaps whom, and draws which of them break together.
func (w *Workload) relate() {
	r := rand.New(rand.NewPCG(w.Seed, 0xb4ea5))
	last := map[int][]int{}
	var roots []int
	for i := range w.Changes {
		x := &w.Changes[i]
		if w.lanes {
			x.before = w.earlier(i, last, roots)
			for _, t := range x.Targets {
				last[t] = append(last[t], i)
			}
			if x.All {
				roots = append(roots, i)
			}
		}
		for _, j := range w.near(i) {
			if w.Cell.Breaks > 0 && r.Float64() < w.Cell.Breaks && !x.Bad && !w.Changes[j].Bad {
				x.breaks = append(x.breaks, j)
				w.Changes[j].breaks = append(w.Changes[j].breaks, i)
			}
		}
	}
}

// earlier are the changes before i that it overlaps, in order.
func (w *Workload) earlier(i int, last map[int][]int, roots []int) []int {
	var all []int
	if w.Changes[i].All {
		for j := range i {
			all = append(all, j)
		}
		return all
	}
	all = append(all, roots...)
	for _, t := range w.Changes[i].Targets {
		all = append(all, last[t]...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// near are those that i overlaps and whose changes its author did not have.
func (w *Workload) near(i int) []int {
	x := &w.Changes[i]
	var list []int
	if w.lanes {
		for k := len(x.before) - 1; k >= 0 && x.At-w.Changes[x.before[k]].At < branchAge; k-- {
			list = append(list, x.before[k])
		}
		return list
	}
	for j := i - 1; j >= 0 && x.At-w.Changes[j].At < branchAge; j-- {
		list = append(list, j)
	}
	return list
}

// Load is the load factor: the work that arrives in the time that CI takes for
// as much, when each change is tested once.
func (c Cell) Load() float64 { return c.PerHour * c.Test.mean() / 60 / float64(c.Workers) }
