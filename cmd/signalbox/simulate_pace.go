package main

import (
	"fmt"
	"time"
)

// pace shows how far a benchmark is: on a terminal after each play, of one policy
// with one seed, elsewhere with each cell.
type pace struct {
	out   *progress
	began time.Time

	cells, all int // how many cells and plays there are
	cell       string
	number     int // of the cell, from 1
	plays      int // in the cell
	here, done int // of these, and of all
}

// next begins a cell with so many plays.
func (p *pace) next(cell string, plays int) {
	p.cell, p.number, p.plays, p.here = cell, p.number+1, plays, 0
	p.show(time.Now(), true)
}

// played counts a play.
func (p *pace) played() {
	p.here, p.done = p.here+1, p.done+1
	p.show(time.Now(), false)
}

// show shows where it is; elsewhere than on a terminal only where a cell begins.
func (p *pace) show(now time.Time, begins bool) {
	switch line := p.line(now); {
	case p.out.size != nil:
		p.out.draw([]string{line})
	case begins:
		p.out.note(line, now, true)
	}
}

// line says where it is, and how long the rest takes if all plays take as long.
func (p *pace) line(now time.Time) string {
	line := fmt.Sprintf("Cell %d of %d, %s: %d of %d plays", p.number, p.cells, p.cell, p.here, p.plays)
	if p.done == 0 || p.done == p.all {
		return line + "."
	}
	left := time.Duration(float64(now.Sub(p.began)) / float64(p.done) * float64(p.all-p.done))
	return fmt.Sprintf("%s, %d of all %d; if the rest is as fast, it takes %s more.", line, p.done, p.all, span(max(left, time.Minute)))
}
