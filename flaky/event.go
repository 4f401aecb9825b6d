package flaky

import (
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// EventType names what has happened to a test, for programs that subscribe to
// it. The names never change their meaning.
type EventType string

// What happens to a test.
const (
	StatusChanged EventType = "test_case.status_changed"
	// QuarantineChanged: a person decided about the test, or its failures begin
	// or cease to be excused.
	QuarantineChanged EventType = "test_case.quarantining_setting_changed"
)

// EventTypes lists the events of tests.
var EventTypes = []EventType{StatusChanged, QuarantineChanged}

// Event is something that has happened to a test, as it is told to those
// outside. It is whole: what it says is what was so then.
type Event struct {
	Type       EventType `json:"type"`
	Host       string    `json:"host"` // of the repository
	Owner      string    `json:"owner"`
	Repo       string    `json:"repo"`
	Number     int64     `json:"number"` // of the test, the service's own
	ID         uuid.UUID `json:"id"`
	File       string    `json:"file,omitempty"`
	Classname  string    `json:"classname,omitempty"`
	Parent     string    `json:"parent,omitempty"`
	Name       string    `json:"name"`
	Variant    string    `json:"variant,omitempty"`
	Codeowners []string  `json:"codeowners,omitempty"`
	Change     Change    `json:"change"`
	// What was decided about the test before and after.
	SettingBefore Setting   `json:"settingBefore,omitempty"`
	Setting       Setting   `json:"setting,omitempty"`
	Repairer      string    `json:"repairer,omitempty"` // the owner named with the decision
	Expires       time.Time `json:"expires,omitzero"`
}

// EventOf is the event that a change is.
func (c Change) EventOf() EventType {
	if c.What == "status" {
		return StatusChanged
	}
	return QuarantineChanged
}

// Subject names what the event is about: the events of one subject are told in
// their order.
func (e *Event) Subject() string { return "test/" + strconv.FormatInt(e.Number, 10) }

// Shown is the test as people name it.
func (e *Event) Shown() string {
	var parts []string
	for _, part := range []string{e.Classname, e.Name} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	name := strings.Join(parts, " › ")
	if e.Variant != "" {
		name += " (" + e.Variant + ")"
	}
	return name
}
