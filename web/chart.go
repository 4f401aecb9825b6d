package web

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Charts are drawn on the server, from plain values: where everything stands
// is decided here, and the template chart.html lays it out. A table with the
// same numbers always stands beside them.

// The measures of a chart, in pixels.
const (
	chartWidth  = 560
	chartHeight = 190
	chartLeft   = 52 // room for the numbers of the axis
	chartRight  = 8
	chartTop    = 10
	chartBottom = 24 // room for the times
)

// series is one thing over time; all series of a chart have as many values.
type series struct {
	Name, Look string // Look is a class of the style sheet
	Values     []float64
}

// chart is a drawing.
type chart struct {
	ID, Title     string
	Width, Height int
	Ticks         []tick
	Labels        []label
	Bars          []columnBar
	Lines         []chartLine
	Legend        []series
	Left, Right   int // of the lines of the axis
	LabelY        int
	Empty         bool
}

// tick is a number of the axis.
type tick struct {
	Y, TextY int
	Text     string
}

// label is a time below the chart.
type label struct {
	X    int
	Text string
}

// columnBar is a column of a bar chart: what is stacked in it, and where it
// leads.
type columnBar struct {
	Segments []segment
	URL      string
	Says     string
	X, Width float64
	Y        int // of the whole height, for the pointer
	Height   int
}

// segment is a part of a column.
type segment struct {
	Look      string
	X, Width  float64
	Y, Height float64
}

// chartLine is a series as a line.
type chartLine struct {
	Look   string
	Points string
	Dots   []dot
}

// dot is a value on a line.
type dot struct {
	X, Y float64
	Says string
}

// barChart draws series stacked on each other. urls and says are those of the
// columns.
func barChart(id, title string, times []string, all []series, urls, says []string) chart {
	c := newChart(id, title, times, all)
	most := 0.0
	for i := range times {
		sum := 0.0
		for _, s := range all {
			sum += s.Values[i]
		}
		most = max(most, sum)
	}
	top := c.axis(most, countStep(most), func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) })
	step := float64(chartWidth-chartLeft-chartRight) / float64(max(len(times), 1))
	for i := range times {
		column := columnBar{
			X: round(chartLeft + float64(i)*step), Width: round(step), Y: chartTop, Height: chartHeight - chartTop - chartBottom,
			Says: says[i], URL: urls[i],
		}
		at := float64(chartHeight - chartBottom)
		for _, s := range all {
			if h := s.Values[i] / top * float64(column.Height); h > 0 {
				at -= h
				column.Segments = append(column.Segments, segment{s.Look, round(column.X + step*0.12), round(step * 0.76), round(at), round(h)})
			}
		}
		c.Bars = append(c.Bars, column)
	}
	return c
}

// lineChart draws durations, in seconds; a value of 0 is none, and breaks the
// line.
func lineChart(id, title string, times []string, all []series) chart {
	c := newChart(id, title, times, all)
	most := 0.0
	for _, s := range all {
		for _, v := range s.Values {
			most = max(most, v)
		}
	}
	top := c.axis(most, timeStep(most), axisTime)
	step := float64(chartWidth-chartLeft-chartRight) / float64(max(len(times), 1))
	for _, s := range all {
		l := chartLine{Look: s.Look}
		var path strings.Builder
		pen := "M"
		for i, v := range s.Values {
			if v <= 0 {
				pen = "M"
				continue
			}
			d := dot{
				X: round(chartLeft + (float64(i)+0.5)*step), Y: round(float64(chartHeight-chartBottom) - v/top*(chartHeight-chartTop-chartBottom)),
				Says: fmt.Sprintf("%s, %s: %s", times[i], s.Name, length(seconds(v))),
			}
			fmt.Fprintf(&path, "%s%v %v", pen, d.X, d.Y)
			pen = "L"
			l.Dots = append(l.Dots, d)
		}
		l.Points = path.String()
		c.Lines = append(c.Lines, l)
	}
	return c
}

func seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }

func newChart(id, title string, times []string, all []series) chart {
	c := chart{ID: id, Title: title, Width: chartWidth, Height: chartHeight, Left: chartLeft, Right: chartWidth - chartRight,
		LabelY: chartHeight - 7, Legend: all, Empty: true}
	for _, s := range all {
		for _, v := range s.Values {
			c.Empty = c.Empty && v == 0
		}
	}
	step := float64(chartWidth-chartLeft-chartRight) / float64(max(len(times), 1))
	every := max(1, int(math.Ceil(float64(len(times))/7)))
	for i := 0; i < len(times); i += every {
		c.Labels = append(c.Labels, label{int(chartLeft + (float64(i)+0.5)*step), times[i]})
	}
	return c
}

// axis writes round numbers up to the largest value, and returns what the top
// of the chart stands for.
func (c *chart) axis(most, step float64, text func(float64) string) float64 {
	top := step * max(1, math.Ceil(most/step))
	for v := 0.0; v <= top; v += step {
		y := chartHeight - chartBottom - int(v/top*(chartHeight-chartTop-chartBottom))
		c.Ticks = append(c.Ticks, tick{y, y + 4, text(v)})
	}
	return top
}

// countStep is the distance of the numbers of an axis that counts.
func countStep(most float64) float64 {
	for scale := 1.0; ; scale *= 10 {
		for _, m := range []float64{1, 2, 5} {
			if m*scale*4 >= most {
				return m * scale
			}
		}
	}
}

// timeStep is the distance of the numbers of an axis of times.
func timeStep(most float64) float64 {
	for _, s := range []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 2 * 3600, 4 * 3600, 6 * 3600, 12 * 3600} {
		if s*4 >= most {
			return s
		}
	}
	return 24 * 3600 * math.Ceil(most/(4*24*3600))
}

func axisTime(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 60:
		return fmt.Sprintf("%v s", v)
	case v < 3600:
		return fmt.Sprintf("%v min", round(v/60))
	case v < 24*3600:
		return fmt.Sprintf("%v h", round(v/3600))
	default:
		return fmt.Sprintf("%v d", round(v/24/3600))
	}
}

// round keeps what a screen shows.
func round(v float64) float64 { return math.Round(v*10) / 10 }
