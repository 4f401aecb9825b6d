package web

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// The picture of a queue: groups as boxes, the branch at the left, and a line
// from each group to those that it is tested on top of. What is tested first
// stands left; lanes that have nothing to do with each other stand one below
// the other, and so do the searches of bisections, each in a band of its own.
//
//	┌──────┐   ┌───────┐   ┌───────┐
//	│ main │◄──│ #1    │◄──│ #2 #3 │
//	│      │   └───────┘   └───────┘
//	│      │◄──│ #4    │
//	└──────┘   └───────┘
//
// Where everything stands is decided here, from plain values, and drawn by
// the template queue.html. Lengths are pixels.

// band is a line of groups on one base, as it goes into the picture.
type band struct {
	Title string // "" for the main line
	Base  code   // the commit that it begins on
	Label string // what the base is called
	Boxes []box
}

// box is a group. Ahead are the places in its band of all groups that it is
// tested on top of, each before the box itself.
type box struct {
	Ahead  []int
	State  badge
	Rows   []boxRow
	More   int // members that have no row
	Marks  []string
	Age    moment
	Checks progress
	URL    string // of the run, or of the group's first pull request
	Says   string // the whole box in a sentence, for those who do not see it
}

// boxRow is a member of a group.
type boxRow struct {
	Number     int64
	Title, URL string
}

// The measures of the picture.
const (
	boxWidth   = 208
	boxGap     = 36 // between columns: room for the lines
	laneGap    = 16
	rowHeight  = 20
	boxHead    = 28
	boxFoot    = 26
	baseWidth  = 104
	bandTitle  = 26
	bandGap    = 14
	margin     = 8 // for shadows, focus rings and lines
	boxRows    = 5
	titleWidth = 21 // in units of a Latin letter
)

// picture is the whole drawing.
type picture struct {
	Width, Height int
	Bands         []drawnBand
}

// drawnBand is a band with its places.
type drawnBand struct {
	Title                   string
	TitleY                  int
	Base                    code
	Label                   string
	X, Y, Width, Height     int // of the base
	TextX, LabelY, BaseCode int
	Boxes                   []drawnBox
	Edges                   []edge
}

// drawnBox is a box with its places.
type drawnBox struct {
	box
	X, Y, Width, Height int
	Rx, Right           int // where texts begin and end
	HeadY, FootY, MoreY int // base lines of texts
	BarY                int
	Bars                []bar
	Rows                []drawnRow
	Mark                string
}

// drawnRow is a row with its place.
type drawnRow struct {
	boxRow
	X, Y int
}

// bar is a part of the bar of checks.
type bar struct {
	Look     string
	X, Width int
}

// edge is a line from a box to the one that it is tested on top of, or to the
// base; its arrow points at that.
type edge struct{ Path string }

// draw finds the place of everything.
func draw(bands []band) picture {
	p := picture{Width: margin, Height: margin}
	for _, b := range bands {
		d := drawBand(b, p.Height)
		p.Height = d.Y + d.Height + bandGap
		for _, box := range d.Boxes {
			p.Width = max(p.Width, box.X+box.Width+margin)
		}
		p.Width = max(p.Width, d.X+d.Width+margin)
		p.Bands = append(p.Bands, d)
	}
	p.Height += margin - bandGap
	return p
}

func drawBand(b band, top int) drawnBand {
	d := drawnBand{Title: b.Title, Base: b.Base, Label: clip(b.Label, 11), X: margin, Y: top, Width: baseWidth}
	if b.Title != "" {
		d.TitleY = top + 15
		d.Y += bandTitle
	}
	columns, lanes := places(b.Boxes)
	heights := make([]int, slices.Max(append([]int{0}, lanes...))+1)
	for i, x := range b.Boxes {
		heights[lanes[i]] = max(heights[lanes[i]], heightOf(x))
	}
	tops := make([]int, len(heights))
	y := d.Y
	for i, h := range heights {
		tops[i] = y
		y += max(h, boxHead+rowHeight) + laneGap
	}
	d.Height = y - laneGap - d.Y
	d.TextX, d.LabelY, d.BaseCode = d.X+d.Width/2, d.Y+d.Height/2-2, d.Y+d.Height/2+15
	for i, x := range b.Boxes {
		d.Boxes = append(d.Boxes, drawBox(x, margin+baseWidth+boxGap+columns[i]*(boxWidth+boxGap), tops[lanes[i]]))
	}
	for i := range b.Boxes {
		next := nearest(b.Boxes, i)
		for _, a := range next {
			d.Edges = append(d.Edges, line(d.Boxes[i].X, middle(d.Boxes[i]), d.Boxes[a].X+boxWidth, middle(d.Boxes[a])))
		}
		if len(next) == 0 {
			d.Edges = append(d.Edges, line(d.Boxes[i].X, middle(d.Boxes[i]), d.X+d.Width, middle(d.Boxes[i])))
		}
	}
	return d
}

// places gives every box a column, one behind the last of those it is on top
// of, and a lane: that of one it is on top of where that is free, else the
// first in which nobody stands there or behind.
func places(boxes []box) (columns, lanes []int) {
	columns, lanes = make([]int, len(boxes)), make([]int, len(boxes))
	var last []int // the last column taken in each lane
	for i, b := range boxes {
		for _, a := range b.Ahead {
			columns[i] = max(columns[i], columns[a]+1)
		}
		lane := -1
		for _, a := range nearest(boxes, i) {
			if last[lanes[a]] < columns[i] {
				lane = lanes[a]
				break
			}
		}
		if lane < 0 {
			lane = slices.IndexFunc(last, func(column int) bool { return column < columns[i] })
		}
		if lane < 0 {
			last = append(last, 0)
			lane = len(last) - 1
		}
		last[lane], lanes[i] = columns[i], lane
	}
	return columns, lanes
}

// nearest are those ahead of a box that no other ahead of it is on top of: the
// lines that say everything, because Ahead holds all of them.
func nearest(boxes []box, i int) []int {
	var near []int
	for _, a := range boxes[i].Ahead {
		if !slices.ContainsFunc(boxes[i].Ahead, func(other int) bool { return slices.Contains(boxes[other].Ahead, a) }) {
			near = append(near, a)
		}
	}
	return near
}

func heightOf(b box) int {
	rows := min(len(b.Rows), boxRows)
	if b.More > 0 {
		rows++
	}
	return boxHead + max(rows, 1)*rowHeight + boxFoot
}

func drawBox(b box, x, y int) drawnBox {
	d := drawnBox{box: b, X: x, Y: y, Width: boxWidth, Height: heightOf(b), HeadY: y + 19, Rx: x + 12, Right: x + boxWidth - 10}
	for i, row := range b.Rows {
		left := titleWidth - len(strconv.FormatInt(row.Number, 10))
		row.Title = clip(row.Title, left)
		d.Rows = append(d.Rows, drawnRow{boxRow: row, X: x + 12, Y: y + boxHead + i*rowHeight + 14})
	}
	d.MoreY = y + boxHead + len(b.Rows)*rowHeight + 14
	d.BarY = y + d.Height - 8
	d.FootY = d.BarY - 6
	if len(b.Marks) > 0 {
		d.Mark = b.Marks[0]
	}
	d.Bars = bars(b.Checks, x+10, boxWidth-20)
	return d
}

// bars shares a width among the checks: passed, failed, and the rest.
func bars(p progress, x, width int) []bar {
	if p.Total == 0 {
		return nil
	}
	var all []bar
	at := x
	for _, part := range []struct {
		look string
		n    int
	}{{"good", p.Passed}, {"bad", p.Failed}, {"rest", p.Total - p.Passed - p.Failed}} {
		if w := part.n * width / p.Total; w > 0 {
			all = append(all, bar{part.look, at, w})
			at += w
		}
	}
	return all
}

func middle(b drawnBox) int { return b.Y + boxHead + rowHeight/2 }

// line leads from the left side of one thing to the right side of another.
func line(fromX, fromY, toX, toY int) edge {
	toX += 7 // the arrow's head
	path := "M" + strconv.Itoa(fromX) + " " + strconv.Itoa(fromY)
	if fromY == toY {
		return edge{path + "H" + strconv.Itoa(toX)}
	}
	bend := cmp.Or(toX+boxGap/2-7, toX)
	return edge{path + "C" + strconv.Itoa(bend-8) + " " + strconv.Itoa(fromY) + " " + strconv.Itoa(bend+8) + " " + strconv.Itoa(toY) + " " + strconv.Itoa(toX) + " " + strconv.Itoa(toY)}
}

// clip cuts a text to a width in units of a usual Latin letter: what is drawn
// in SVG does not wrap.
func clip(text string, width int) string {
	used := 0
	for i, r := range text {
		if used += tenths(r); used > 10*width {
			return text[:i] + "…"
		}
	}
	return text
}

// tenths is about how wide a letter is, in tenths of a usual one: East Asian
// letters and emoji are twice as wide, marks that combine take no room.
func tenths(r rune) int {
	switch {
	case strings.ContainsRune("ijlItfr.,;:'|!()[] ", r):
		return 6
	case strings.ContainsRune("mwMW@%", r):
		return 16
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r >= 0x1100 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) || r >= 0x1f000 || r >= 0xff01 && r <= 0xff60:
		return 20
	case unicode.IsUpper(r):
		return 13
	default:
		return 10
	}
}
