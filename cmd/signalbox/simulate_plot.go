package main

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"

	"signalbox/queue/sim"
)

// plot is a drawing of lines or of points over two axes. The horizontal axis is
// logarithmic: times in a queue differ by factors.
type plot struct {
	title, x, y string
	lines       []plotLine
	points      []plotPoint
	// top is where the vertical axis ends; 0 = at the largest value.
	top  float64
	unit string // of the vertical axis
	// steep makes the vertical axis logarithmic too: what grows as a power of
	// the other is a straight line.
	steep bool
}

// plotLine is a line, plotPoint a point, each with its name.
type plotLine struct {
	name   string
	at     [][2]float64
	strong bool
}

type plotPoint struct {
	name   string
	x, y   float64
	strong bool
}

// The measures of a plot, in pixels.
const (
	plotWidth, plotHeight = 860, 420
	plotLeft, plotRight   = 62, 270 // to the right are the names
	plotTop, plotBottom   = 46, 52
)

// plotColors can be told apart by most people, on white and on black.
var plotColors = []string{"#4269d0", "#ef8a2d", "#3ca951", "#e0446b", "#9b6fd0", "#2a9fb5", "#a2754f", "#7a7f87", "#c9a800", "#d16ba5", "#4f9d8f", "#8a6d3b"}

// scale places values between two ends.
type scale struct {
	from, to    float64 // values
	start, end  float64 // pixels
	logarithmic bool
}

func (s scale) at(v float64) float64 {
	part := (v - s.from) / (s.to - s.from)
	if s.logarithmic {
		part = math.Log(v/s.from) / math.Log(s.to/s.from)
	}
	return s.start + min(max(part, 0), 1)*(s.end-s.start)
}

// svg is the drawing.
func (p plot) svg() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s" font-family="system-ui, sans-serif" font-size="12">`+"\n", plotWidth, plotHeight, plotWidth, plotHeight, html.EscapeString(p.title))
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/><text x="%d" y="24" font-size="15" font-weight="600" fill="#1c2126">%s</text>`+"\n", plotWidth, plotHeight, plotLeft, html.EscapeString(p.title))
	x, y := p.scales()
	p.axes(&b, x, y)
	names := make([]plotPoint, 0, len(p.lines)+len(p.points))
	for i, l := range p.lines {
		var path strings.Builder
		for k, at := range l.at {
			fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(k, 1)], x.at(at[0]), y.at(at[1]))
		}
		fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="%s" stroke-width="%s" stroke-linejoin="round"%s/>`+"\n", path.String(), color(i), stroke(l.strong), dashes(i))
		names = append(names, plotPoint{name: l.name, strong: l.strong})
	}
	for i, q := range p.points {
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="%d" %s/>`+"\n", x.at(q.x), y.at(q.y), map[bool]int{true: 8, false: 5}[q.strong], filled(i))
		names = append(names, q)
	}
	for i, n := range names {
		at := plotTop + 8 + i*19
		weight := ""
		if n.strong {
			weight = ` font-weight="600"`
		}
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="12" height="12" rx="2" %s/><text x="%d" y="%d" fill="#1c2126"%s>%s</text>`+"\n",
			plotWidth-plotRight+16, at-10, filled(i), plotWidth-plotRight+34, at, weight, html.EscapeString(n.name))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func color(i int) string { return plotColors[i%len(plotColors)] }

// When the colors are used up they come again, dashed and hollow.
func dashes(i int) string {
	if i < len(plotColors) {
		return ""
	}
	return ` stroke-dasharray="5 4"`
}

func filled(i int) string {
	if i < len(plotColors) {
		return fmt.Sprintf(`fill="%s"`, color(i))
	}
	return fmt.Sprintf(`fill="#fff" stroke="%s" stroke-width="2.5"`, color(i))
}

func stroke(strong bool) string {
	if strong {
		return "3"
	}
	return "1.8"
}

// scales fit all values.
func (p plot) scales() (x, y scale) {
	var xs, ys []float64
	for _, l := range p.lines {
		for _, at := range l.at {
			xs, ys = append(xs, at[0]), append(ys, at[1])
		}
	}
	for _, q := range p.points {
		xs, ys = append(xs, q.x), append(ys, q.y)
	}
	if len(xs) == 0 {
		xs, ys = []float64{1}, []float64{1}
	}
	least, most := max(slices.Min(xs), 0.1), max(slices.Max(xs), 0.2)
	if len(p.points) > 0 { // room around points
		least, most = least/1.2, most*1.2
	}
	x = scale{least, max(most, least*2), plotLeft, plotWidth - plotRight, true}
	y = scale{0, cmp.Or(p.top, 1.1*slices.Max(ys)), plotHeight - plotBottom, plotTop, false}
	if p.steep {
		y.from, y.to, y.logarithmic = slices.Min(ys)/1.5, slices.Max(ys)*1.5, true
	}
	return x, y
}

// axes draws the ticks, their lines and what the axes are.
func (p plot) axes(b *strings.Builder, x, y scale) {
	for _, v := range ticks(y) {
		at := y.at(v)
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#e3e6ea"/><text x="%d" y="%.1f" text-anchor="end" fill="#5a636d">%s%s</text>`+"\n",
			plotLeft, plotWidth-plotRight, at, at, plotLeft-8, at+4, tick(v), p.unit)
	}
	for _, v := range ticks(x) {
		fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#e3e6ea"/><text x="%.1f" y="%d" text-anchor="middle" fill="#5a636d">%s</text>`+"\n",
			x.at(v), x.at(v), plotTop, plotHeight-plotBottom, x.at(v), plotHeight-plotBottom+18, tick(v))
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle" fill="#5a636d">%s</text>`+"\n", (plotLeft+plotWidth-plotRight)/2, plotHeight-12, html.EscapeString(p.x))
	fmt.Fprintf(b, `<text transform="translate(16 %d) rotate(-90)" text-anchor="middle" fill="#5a636d">%s</text>`+"\n", (plotTop+plotHeight-plotBottom)/2, html.EscapeString(p.y))
}

// tick is a value beside an axis: four digits are enough, and powers of ten are written out.
func tick(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// ticks are the round values of a scale: those of 1, 2 and 5 in each decade of a
// logarithmic one, and of 1 alone where the decades are many.
func ticks(s scale) (values []float64) {
	if !s.logarithmic {
		step := niceStep(s.to / 5)
		for v := 0.0; v <= s.to*1.0001; v += step {
			values = append(values, v)
		}
		return values
	}
	of := []float64{1, 2, 5}
	if s.to/s.from > 1e3 {
		of = of[:1]
	}
	for decade := math.Pow(10, math.Floor(math.Log10(s.from))); decade <= s.to; decade *= 10 {
		for _, k := range of {
			if v := decade * k; v >= s.from && v <= s.to {
				values = append(values, v)
			}
		}
	}
	return values
}

// niceStep is the step of 1, 2 or 5 times a power of ten that comes next.
func niceStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(max(v, 1e-9))))
	for _, k := range []float64{1, 2, 5, 10} {
		if power*k >= v {
			return power * k
		}
	}
	return power * 10
}

// turnaroundPlot has a line for each row: how many are through after how long.
func turnaroundPlot(title string, rows []sim.Row, strong string) plot {
	p := plot{title: title, x: "minutes from being ready to the end", y: "of the pull requests are through", top: 100, unit: "%"}
	for _, r := range rows {
		l := plotLine{name: r.Policy, strong: r.Policy == strong}
		for q, minutes := range r.Curve {
			l.at = append(l.at, [2]float64{max(minutes, 0.1), float64(q)})
		}
		p.lines = append(p.lines, l)
	}
	return p
}

// pricePlot has a point for each row: how long most take, and what that costs.
func pricePlot(title string, rows []sim.Row, strong string) plot {
	p := plot{title: title, x: "minutes until 95 of 100 are through", y: "minutes of CI for each that lands"}
	for _, r := range rows {
		p.points = append(p.points, plotPoint{r.Policy, max(r.Minutes95.Value, 0.1), r.CIMinutes.Value, r.Policy == strong})
	}
	return p
}

func cellPlots(rows []sim.Row) map[string]plot {
	name := rows[0].Cell.Name
	return map[string]plot{
		"turnaround": turnaroundPlot(name+": time in the queue", rows, "signalbox"),
		"price":      pricePlot(name+": time and price", rows, "signalbox"),
	}
}

// choicesDrawn is how many choices a drawing shows: more cannot be told apart.
const choicesDrawn = 8

func advicePlots(a sim.Advice) map[string]plot {
	var rows []sim.Row
	for _, c := range a.Choices[:min(len(a.Choices), choicesDrawn)] {
		rows = append(rows, c.Row)
	}
	best := a.Choices[0].Name
	return map[string]plot{
		"turnaround": turnaroundPlot("Time in the queue with the best settings", rows, best),
		"price":      pricePlot("Time and price of the best settings", rows, best),
	}
}
