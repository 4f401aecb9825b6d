package web

import (
	"signalbox/queue"
)

// Setting is one setting of a queue in words, for whoever shows it or takes it
// elsewhere than on its page: the command line, the manual.
type Setting struct {
	Name    string // in the API
	Group   string // the settings that it belongs to, such as "Testing"
	Label   string
	Help    string   // a sentence or two
	Kind    string   // number, switch, choice, text or lines
	Least   int64    // of a number
	Choices []string // of a choice
	Default string   // of a new queue; lines stand one below the other
}

// Settings are all settings of a queue that somebody may choose, in the order
// of their page. The caller owns them.
func Settings() []Setting {
	var all []Setting
	fresh := &queue.Queue{Settings: queue.DefaultSettings()}
	for _, g := range settingGroups {
		for _, d := range g.Defs {
			s := Setting{Name: d.Name, Group: g.Title, Label: d.Label, Help: d.Help, Kind: d.Kind, Least: d.Least, Default: d.read(fresh)}
			for _, c := range d.Choices {
				s.Choices = append(s.Choices, c.Value)
			}
			all = append(all, s)
		}
	}
	return all
}
