package notify

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"signalbox/account"
	"signalbox/flaky"
	"signalbox/queue"
)

// Ping is the type of an event that happens when somebody tries a subscriber.
// It cannot be subscribed to.
const Ping = "ping"

// kinds are all events that can be subscribed to, in the order in which people
// read them.
var kinds = []account.EventKind{
	{Type: string(queue.PullRequestSubmitted), Topic: "Pull requests", About: "Somebody submitted it. It waits until it is ready."},
	{Type: string(queue.PullRequestQueued), Topic: "Pull requests", About: "It is ready and waits for its turn, or it is back in line to be tested again."},
	{Type: string(queue.PullRequestTesting), Topic: "Pull requests", About: "Its tests have started."},
	{Type: string(queue.PullRequestTestsPassed), Topic: "Pull requests", About: "Its tests passed. It waits to land."},
	{Type: string(queue.PullRequestPendingFailure), Topic: "Pull requests", About: "Its tests failed. Whose failure it is, is not certain yet."},
	{Type: string(queue.PullRequestFailed), Topic: "Pull requests", About: "It left the queue because of a failure of its own, or of its set-up."},
	{Type: string(queue.PullRequestCanceled), Topic: "Pull requests", About: "It left the queue because somebody wanted that, or it changed."},
	{Type: string(queue.PullRequestMerged), Topic: "Pull requests", About: "It is on the target branch."},
	{Type: string(queue.BatchTesting), Topic: "Batches", About: "Two or more pull requests are tested together."},
	{Type: string(queue.BatchTestsPassed), Topic: "Batches", About: "The tests of the batch passed."},
	{Type: string(queue.BatchPendingFailure), Topic: "Batches", About: "The tests of the batch failed. Whose failure it is, is not certain yet."},
	{Type: string(queue.BatchFailed), Topic: "Batches", About: "The failure is the batch's own: it is split to find out which pull request is to blame."},
	{Type: string(queue.BatchRestarted), Topic: "Batches", About: "The pull requests of the batch wait to be tested again."},
	{Type: string(queue.BatchMerged), Topic: "Batches", About: "Pull requests that were tested together have landed."},
	{Type: string(queue.QueueStateChanged), Topic: "Queues", About: "A queue was paused, drained or set running, or it did so itself."},
	{Type: string(queue.QueueSettingsChanged), Topic: "Queues", About: "Somebody changed settings of a queue."},
	{Type: string(flaky.StatusChanged), Topic: "Tests", About: "A test became flaky, broken or healthy."},
	{Type: string(flaky.QuarantineChanged), Topic: "Tests", About: "Somebody decided about a test, or its failures begin or cease to be excused."},
}

// EventKinds lists all events that can be subscribed to. It is not to be changed.
func (s *Service) EventKinds() []account.EventKind { return kinds }

// maxEvents bounds the names that a subscriber may list.
const maxEvents = 100

// checkEvents puts names of events in order: each known, none twice.
func checkEvents(names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, account.Invalid(`Choose at least one event, or "*" for all.`)
	}
	if len(names) > maxEvents {
		return nil, account.Invalid(fmt.Sprintf("There are at most %d events to choose.", maxEvents))
	}
	for _, name := range names {
		known := name == "*" || slices.ContainsFunc(kinds, func(k account.EventKind) bool {
			family, _, _ := strings.Cut(k.Type, ".")
			return name == k.Type || name == family+".*"
		})
		if !known {
			return nil, account.Invalid(fmt.Sprintf(`There is no event %q. There are %s; "queue.*" stands for all that begin so, and "*" for all.`, clip(name, 60), eventNames()))
		}
	}
	sorted := slices.Sorted(slices.Values(names))
	return slices.Compact(sorted), nil
}

func eventNames() string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.Type
	}
	return strings.Join(names, ", ")
}

// clip cuts a text to so many bytes, at the border of a character.
func clip(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
