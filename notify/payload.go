package notify

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"signalbox/account"
	"signalbox/flaky"
	"signalbox/queue"
)

// What is sent. The shapes are a contract: fields are added, never renamed or
// taken away. Those of queues have the names of the API's endpoints about
// queues, those of tests the names of its endpoints about tests.

// message is the body of every delivery to a webhook.
type message struct {
	Type      string `json:"type"`
	Timestamp moment `json:"timestamp"` // when it happened
	Data      any    `json:"data"`
}

// moment is a time as the API writes it.
type moment time.Time

// MarshalJSON writes the moment.
func (m moment) MarshalJSON() ([]byte, error) {
	return []byte(time.Time(m).UTC().Format(`"2006-01-02T15:04:05.000Z"`)), nil
}

type repository struct {
	Host  string `json:"host"`
	Owner string `json:"owner"`
	Name  string `json:"name"`
}

// actor is who did it; null where that was Signalbox itself.
type actor struct {
	Login string `json:"login"` // of a person on the host; "" for a token
	Bot   bool   `json:"bot"`
	Token string `json:"token"` // name of an API token; "" for a person
}

type reason struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// pullRequest is a pull request in an event.
type pullRequest struct {
	ID            string  `json:"id"` // of its place in the queue, as in the API
	Number        int64   `json:"prNumber"`
	Title         string  `json:"prTitle"`
	SHA           string  `json:"prSha"`
	Author        string  `json:"prAuthor"`
	URL           string  `json:"prUrl"`
	Submission    int64   `json:"submission"`
	PriorityValue int64   `json:"priorityValue"`
	PriorityName  string  `json:"priorityName"`
	LandedCommit  *string `json:"landedCommit"`
}

// place is which queue an event is about.
type place struct {
	Organization string     `json:"organization"`
	Repo         repository `json:"repo"`
	TargetBranch string     `json:"targetBranch"`
	URL          string     `json:"url"` // of the page about it
}

// pullRequestData is the data of pull_request events.
type pullRequestData struct {
	place
	PreviousState *string     `json:"previousState"` // null: it was never submitted before
	State         string      `json:"state"`
	Reason        reason      `json:"reason"`
	Actor         *actor      `json:"actor"`
	TestRunID     *string     `json:"testRunId"`
	PullRequest   pullRequest `json:"pullRequest"`
}

// batchData is the data of pull_request_batch events.
type batchData struct {
	place
	PreviousState string        `json:"previousState"`
	State         string        `json:"state"`
	Reason        reason        `json:"reason"`
	Actor         *actor        `json:"actor"`
	TestRunID     string        `json:"testRunId"`
	Bisection     bool          `json:"bisection"`
	PullRequests  []pullRequest `json:"pullRequests"`
}

// queueStateData is the data of queue.state_changed.
type queueStateData struct {
	place
	PreviousState string `json:"previousState"`
	State         string `json:"state"`
	Message       string `json:"message"` // why, where the queue did it itself
	Actor         *actor `json:"actor"`
}

// queueSettingsData is the data of queue.settings_changed.
type queueSettingsData struct {
	place
	Actor   *actor    `json:"actor"`
	Changes []changed `json:"changes"`
}

// changed is a setting that has changed. Values are as the API writes them.
type changed struct {
	Name string `json:"name"`
	From any    `json:"from"`
	To   any    `json:"to"`
}

// testData is the data of test_case events.
type testData struct {
	Organization string     `json:"org_url_slug"`
	Repo         repository `json:"repo"`
	TestCase     testCase   `json:"test_case"`
	Actor        string     `json:"actor"` // "": the service itself
	Code         string     `json:"reason_code"`
	Reason       string     `json:"reason"`
}

type testCase struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Parent     string   `json:"parent"`
	File       string   `json:"file_path"`
	Classname  string   `json:"classname"`
	Variant    string   `json:"variant"`
	Codeowners []string `json:"codeowners"`
}

type testStatusData struct {
	testData
	PreviousStatus string  `json:"previous_status"`
	Status         string  `json:"status"`
	Score          float64 `json:"score"`
}

type testQuarantineData struct {
	testData
	PreviousSetting string  `json:"previous_quarantine_setting"`
	Setting         string  `json:"quarantine_setting"`
	WasQuarantined  bool    `json:"previously_quarantined"`
	Quarantined     bool    `json:"quarantined"`
	Owner           string  `json:"owner"`
	ExpiresAt       *moment `json:"expires_at"`
}

// pingData is the data of a ping.
type pingData struct {
	Organization string `json:"organization"`
	Subscriber   string `json:"subscriber"` // its id
	Message      string `json:"message"`
}

// happened is what a delivery is about: a queue's event, a test's, or a ping.
type happened struct {
	queue *queue.Event
	test  *flaky.Event
	ping  *pingData
}

// read takes apart what the store kept.
func read(d account.Delivery) (h happened, err error) {
	var into any
	switch {
	case d.Type == Ping:
		h.ping = new(pingData)
		into = h.ping
	case strings.HasPrefix(d.Type, "test_case."):
		h.test = new(flaky.Event)
		into = h.test
	default:
		h.queue = new(queue.Event)
		into = h.queue
	}
	if err := json.Unmarshal(d.Body, into); err != nil {
		return h, fmt.Errorf("read event %s of delivery %d: %w", d.Type, d.ID, err)
	}
	if h.queue != nil && len(h.queue.Entries) == 0 && strings.HasPrefix(d.Type, "pull_request") {
		return h, fmt.Errorf("read event %s of delivery %d: it names no pull request", d.Type, d.ID)
	}
	return h, nil
}

// payload is what a webhook is sent.
func (s *Service) payload(org account.Organization, d account.Delivery) ([]byte, error) {
	h, err := read(d)
	if err != nil {
		return nil, err
	}
	m := message{Type: d.Type, Timestamp: moment(d.At)}
	switch {
	case h.ping != nil:
		m.Data = h.ping
	case h.test != nil:
		m.Data = dataOfTest(org, h.test)
	default:
		m.Data = s.dataOfQueue(org, h.queue)
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write event %s: %w", d.Type, err)
	}
	return text, nil
}

func (s *Service) dataOfQueue(org account.Organization, e *queue.Event) any {
	where := place{Organization: org.Slug, Repo: repository{e.Repo.Host, e.Repo.Owner, e.Repo.Name}, TargetBranch: e.Branch, URL: s.links.Queue(e.Repo, e.Branch)}
	why := reason{string(e.Reason), e.Message}
	switch e.Type {
	case queue.QueueStateChanged:
		return queueStateData{where, e.From, e.To, e.Message, actorOf(e)}
	case queue.QueueSettingsChanged:
		data := queueSettingsData{where, actorOf(e), []changed{}}
		for _, c := range e.Changes {
			data.Changes = append(data.Changes, changed{c.Name, value(c.From), value(c.To)})
		}
		return data
	}
	list := make([]pullRequest, len(e.Entries))
	for i, p := range e.Entries {
		list[i] = pullRequest{
			ID: string(p.Entry), Number: p.Number, Title: p.Title, SHA: p.Head, Author: p.Author.Login, URL: p.URL, Submission: p.Submission,
			PriorityValue: p.Priority, PriorityName: queue.PriorityName(p.Priority), LandedCommit: orNull(p.LandedCommit),
		}
	}
	if strings.HasPrefix(string(e.Type), "pull_request_batch.") {
		where.URL = s.links.Run(e.Repo, e.Branch, e.Run)
		return batchData{where, e.From, e.To, why, actorOf(e), string(e.Run), e.Bisection, list}
	}
	where.URL = s.links.PullRequest(e.Repo, e.Branch, list[0].Number)
	return pullRequestData{where, orNull(e.From), e.To, why, actorOf(e), orNull(string(e.Run)), list[0]}
}

func dataOfTest(org account.Organization, e *flaky.Event) any {
	data := testData{
		Organization: org.Slug, Repo: repository{e.Host, e.Owner, e.Repo}, Actor: e.Change.Actor, Code: e.Change.Code, Reason: e.Change.Reason,
		TestCase: testCase{
			ID: e.ID.String(), Name: e.Name, Parent: e.Parent, File: e.File, Classname: e.Classname, Variant: e.Variant,
			Codeowners: append([]string{}, e.Codeowners...),
		},
	}
	if e.Type == flaky.StatusChanged {
		return testStatusData{data, e.Change.Before, e.Change.After, e.Change.Score}
	}
	out := testQuarantineData{
		testData: data, PreviousSetting: string(e.SettingBefore), Setting: string(e.Setting),
		WasQuarantined: e.Change.Before == "on", Quarantined: e.Change.After == "on", Owner: e.Repairer,
	}
	if !e.Expires.IsZero() {
		at := moment(e.Expires)
		out.ExpiresAt = &at
	}
	return out
}

func actorOf(e *queue.Event) *actor {
	if e.Actor.Login == "" && e.Token == "" {
		return nil
	}
	return &actor{e.Actor.Login, e.Actor.Bot, e.Token}
}

// value is a setting's value as JSON: the store keeps its text.
func value(text string) any {
	var v any
	if json.Unmarshal([]byte(text), &v) == nil {
		return v
	}
	return text
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
