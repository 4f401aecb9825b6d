package queue

// impact is the set that counts for an entry, as a decision compares it with others.
type impact struct {
	TargetSet
	// numbers are those of its targets, if the set is indexed.
	numbers []int32
}

// numbers gives targets small numbers, from 0 on, which hold for one decision. A line
// is looked at again after each change, and every look asks for each target who else
// has it: by number that is a place in a list.
type numbers struct {
	of      map[uint64]int32
	targets []uint64 // by number
	sets    map[TargetsID][]int32
	lists   []int32 // room for those of sets
}

// numbersFor makes room for the numbers of so many targets more.
func (d *decision) numbersFor(targets int) *numbers {
	if d.known.numbers == nil {
		d.known.numbers = &numbers{of: make(map[uint64]int32, targets), targets: make([]uint64, 0, targets), sets: map[TargetsID][]int32{}}
	}
	n := d.known.numbers
	if cap(n.lists)-len(n.lists) < targets {
		n.lists = make([]int32, 0, targets)
	}
	return n
}

// impact is the set that counts for an entry, with the numbers of its targets.
func (d *decision) impact(e *Entry) impact {
	set := d.targetsOf(e)
	if !set.indexed() {
		return impact{TargetSet: set}
	}
	return impact{set, d.numbered(e.countedTargets(), set)}
}

// impacts are those of several entries, and how many targets they name together.
func (d *decision) impacts(entries []*Entry) (all []impact, targets int) {
	for _, e := range entries {
		if set := d.targetsOf(e); set.indexed() {
			targets += len(set.Hashes)
		}
	}
	d.numbersFor(targets)
	all = make([]impact, len(entries))
	for i, e := range entries {
		all[i] = d.impact(e)
	}
	return all, targets
}

// numbered are the numbers of the targets of a set.
func (d *decision) numbered(id TargetsID, set TargetSet) []int32 {
	if n := d.known.numbers; n != nil {
		if list, known := n.sets[id]; known {
			return list
		}
	}
	n := d.numbersFor(len(set.Hashes))
	from := len(n.lists)
	n.lists = n.lists[:from+len(set.Hashes)]
	list := n.lists[from:len(n.lists):len(n.lists)]
	for i, target := range set.Hashes {
		number, known := n.of[target]
		if !known {
			number = int32(len(n.targets))
			n.of[target] = number
			n.targets = append(n.targets, target)
		}
		list[i] = number
	}
	n.sets[id] = list
	return list
}

// byTarget tells for each target, by its number, at which places it is. The list holds
// them all, each with the one of the same target before it.
type byTarget struct {
	newest []int32
	all    []occurrence // the first is none
}

type occurrence struct{ place, before int32 }

// byTarget is an empty index of the targets that have numbers by now, with room for so
// many occurrences.
func (d *decision) byTarget(occurrences int) byTarget {
	return byTarget{newest: make([]int32, len(d.numbersFor(0).targets)), all: make([]occurrence, 1, occurrences+1)}
}

// add puts the targets of an indexed set at a place.
func (b *byTarget) add(s impact, place int) {
	for _, n := range s.numbers {
		b.all = append(b.all, occurrence{int32(place), b.newest[n]})
		b.newest[n] = int32(len(b.all) - 1)
	}
}

// last is the place of a target that was added last, and whether there is any.
func (b *byTarget) last(n int32) (int, bool) {
	at := b.newest[n]
	return int(b.all[at].place), at != 0
}

// each calls f with the places of a target, the last added first.
func (b *byTarget) each(n int32, f func(place int)) {
	for at := b.newest[n]; at != 0; at = b.all[at].before {
		f(int(b.all[at].place))
	}
}
