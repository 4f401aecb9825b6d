package queue

import (
	"encoding/json"
	"slices"
	"strings"
)

// Changed is one setting that a change makes different. Values are as the API
// writes them: JSON, texts without their quotes.
type Changed struct {
	Name, From, To string
}

// Against lists what a change makes different in a queue, by name.
func (c Change) Against(q *Queue) []Changed {
	present := q.Settings
	present.Mode = q.ReportedMode()
	present.ChosenLandingMode = q.LandingMode()
	before, after := fields(struct {
		Settings
		State State `json:"state"`
	}{present, q.State}), fields(c)
	var changed []Changed
	for name, to := range after {
		if from := before[name]; from != to {
			changed = append(changed, Changed{name, from, to})
		}
	}
	slices.SortFunc(changed, func(a, b Changed) int { return strings.Compare(a.Name, b.Name) })
	return changed
}

// fields are the values of a struct by their names in JSON.
func fields(v any) map[string]string {
	text, err := json.Marshal(v)
	if err != nil {
		return nil // Unreachable: plain values
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil // Unreachable: it is an object
	}
	values := make(map[string]string, len(raw))
	for name, value := range raw {
		var word string
		if json.Unmarshal(value, &word) == nil {
			values[name] = word
		} else {
			values[name] = string(value)
		}
	}
	return values
}

// Granted is a wish to change a queue that a decision granted, with what it
// made different.
type Granted struct {
	ChangeRequested
	Changed []Changed
}

// Granted lists the wishes among the facts of a decision that made a
// difference, in the order in which they came. before is the queue as it was.
func (p *Plan) Granted(before Queue, facts []Received) []Granted {
	var list []Granted
	for _, f := range facts {
		wish, ok := f.Fact.(ChangeRequested)
		if !ok || p.Answers[f.ID].Refused != "" {
			continue
		}
		changed := wish.Change.Against(&before)
		if len(changed) == 0 {
			continue
		}
		list = append(list, Granted{wish, changed})
		before.Settings = before.Settings.With(wish.Change)
		set(&before.State, wish.Change.State)
		set(&before.WantedMode, wish.Change.Mode)
	}
	return list
}
