package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"signalbox/account"
	"signalbox/queue"
)

// settingsView is the page of a queue's settings.
type settingsView struct {
	trail
	State       badge
	Groups      []settingRows
	History     []auditRow
	Deeds       deeds
	Told        string
	Org         string // whose pages the reader may follow; "" = none
	Now         moment
	QueueStates []stateDeed
	SetUp       setUp
	Preview     *previewPanel // nil: nobody can ask
}

// stateDeed is a state that an administrator can bring the queue into.
type stateDeed struct{ Value, Text, Confirm string }

// settingRows are settings that belong together, with their values.
type settingRows struct {
	Title string
	Rows  []settingRow
}

// settingRow is a setting with its value.
type settingRow struct {
	settingDef
	Value, Shown string
	Default      string
	Source       string // where the value comes from
}

func (settingsView) template() string { return "settings" }

// Heading is the page's title.
func (v settingsView) Heading() string { return "Settings of " + v.Branch + " · " + v.Repo }

// auditRow is a line of the audit log.
type auditRow struct {
	At      moment
	By      string
	Deed    string
	Subject string
	Changes []account.Changed
}

var deedNames = map[account.Deed]string{
	account.QueueCreated: "made the queue", account.QueueChanged: "changed the queue", account.QueueDeleted: "deleted the queue",
	account.SubscriberCreated: "added the subscriber", account.SubscriberChanged: "changed the subscriber", account.SubscriberDeleted: "deleted the subscriber",
	account.SubscriberRotated: "made a new secret for the subscriber", account.SubscriberDisabled: "switched off the subscriber",
	account.TokenCreated: "made the API token", account.TokenRevoked: "revoked the API token",
	account.QuarantineSwitched: "switched automatic quarantine of",
}

func viewSettings(q *queue.Queue, history []account.Audit, now time.Time) settingsView {
	v := settingsView{
		trail: trailOf(q),
		State: look(queueBadges, q.State), History: auditRows(history, now), Now: at(now, now), QueueStates: statesFrom(q),
		SetUp: setUpOf(&q.Preflight, true, now),
	}
	defaults := queue.Queue{Settings: queue.DefaultSettings()}
	defaults.MergeMethod = q.MergeMethod // the default landing follows it
	standard := queue.Queue{Settings: queue.DefaultSettings()}
	for _, g := range settingGroups {
		rows := settingRows{Title: g.Title}
		for _, d := range g.Defs {
			from := &standard
			if d.Name == "landingMode" {
				from = &defaults
			}
			row := settingRow{settingDef: d, Value: d.read(q), Default: d.shown(d.read(from))}
			row.Shown = d.shown(row.Value)
			row.Source = sourceOf(d, q, row, history, now)
			rows.Rows = append(rows.Rows, row)
		}
		v.Groups = append(v.Groups, rows)
	}
	return v
}

// sourceOf says where the present value of a setting comes from.
func sourceOf(d settingDef, q *queue.Queue, row settingRow, history []account.Audit, now time.Time) string {
	for _, line := range history { // the newest first
		for _, c := range line.Changes {
			if c.Name == d.Name {
				return "set by " + line.By.String() + ", " + at(line.At, now).Text
			}
		}
	}
	switch {
	case d.Name == "landingMode" && q.ChosenLandingMode == "":
		return "follows the merge method"
	case row.Shown == row.Default:
		return "default"
	default:
		return "set when the queue was made"
	}
}

func auditRows(lines []account.Audit, now time.Time) []auditRow {
	var rows []auditRow
	for _, l := range lines {
		name, ok := deedNames[l.Deed]
		if !ok {
			name = sentence(queue.Reason(l.Deed))
		}
		rows = append(rows, auditRow{At: at(l.At, now), By: l.By.String(), Deed: name, Subject: l.Subject, Changes: l.Changes})
	}
	return rows
}

// statesFrom are the states that a queue can be brought into.
func statesFrom(q *queue.Queue) []stateDeed {
	all := []stateDeed{
		{string(queue.Running), "Run", ""},
		{string(queue.Paused), "Pause", "Pause the queue? Nothing lands until somebody sets it running."},
		{string(queue.Draining), "Drain", "Drain the queue? Nobody new is admitted until somebody sets it running."},
	}
	var possible []stateDeed
	for _, s := range all {
		switch {
		case s.Value == string(q.State):
		case s.Value == string(queue.Draining) && q.WantedMode != "":
		case s.Value == string(queue.Running) && q.State == queue.SwitchingModes:
		default:
			possible = append(possible, s)
		}
	}
	return possible
}

// historyShown is how many lines of the audit log are read to say where
// settings come from.
const historyShown = 200

func (h *Handler) settings(r *http.Request) (frame, error) {
	q, err := h.named(r)
	if err != nil {
		return frame{}, err
	}
	history, err := h.store.AuditOf(r.Context(), q.ID, 0, historyShown)
	if err != nil {
		return frame{}, fmt.Errorf("read the audit log: %w", err)
	}
	v := viewSettings(&q, history, h.clock())
	v.Told = told(r)
	if v.Preview, err = h.preview(r.Context(), q, r.URL.Query()); err != nil {
		return frame{}, err
	}
	if v.Deeds, err = h.deedsOf(r.Context(), q); err != nil {
		return frame{}, err
	}
	if v.Deeds.Admin {
		if v.Org, err = h.store.OrganizationName(r.Context(), q.ID); err != nil {
			return frame{}, fmt.Errorf("find the organisation: %w", err)
		}
	}
	return frame{View: v, Tabs: queueTabs(&q, pageURL("", q.Repo, "/settings", q.Branch))}, nil
}

// changeSettings takes the form of the settings' page: what is different from
// what the page showed is changed, and nothing else, so that two people who
// change different things do not undo each other.
func (h *Handler) changeSettings(r *http.Request) (string, error) {
	q, err := h.named(r)
	if err != nil {
		return "", err
	}
	page := pageURL("", q.Repo, "/settings", q.Branch)
	change, names, err := changeIn(r)
	if err != nil {
		return "", refusal{http.StatusBadRequest, err.Error(), page}
	}
	if names == 0 {
		return page + "&done=same", nil
	}
	return page + "&done=changed", h.change(r.Context(), q, change, page)
}

// changeIn reads a form.
func changeIn(r *http.Request) (change queue.Change, names int, err error) {
	var problems []error
	for _, g := range settingGroups {
		for _, d := range g.Defs {
			was, value := r.PostForm.Get("was."+d.Name), r.PostForm.Get(d.Name)
			if !r.PostForm.Has("was." + d.Name) {
				continue
			}
			if d.Kind == "switch" && value == "" {
				value = "false"
			}
			if value == was || d.Kind == "lines" && trimmed(value) == trimmed(was) {
				continue
			}
			names++
			problems = append(problems, d.wish(&change, value))
		}
	}
	return change, names, errors.Join(problems...)
}

// changeState takes the buttons that pause, drain and run a queue.
func (h *Handler) changeState(r *http.Request) (string, error) {
	q, err := h.named(r)
	if err != nil {
		return "", err
	}
	state := queue.State(r.PostForm.Get("state"))
	page := QueueURL("", q.Repo, q.Branch)
	switch state {
	case queue.Running, queue.Paused, queue.Draining:
		return page + "&done=state", h.change(r.Context(), q, queue.Change{State: &state}, page)
	default:
		return "", refusal{http.StatusBadRequest, "A queue can be running, paused or draining.", page}
	}
}

// lookAgain has the queue's set-up on the host looked at.
func (h *Handler) lookAgain(r *http.Request) (string, error) {
	q, err := h.named(r)
	if err != nil {
		return "", err
	}
	page := pageURL("", q.Repo, "/settings", q.Branch)
	if err = h.need(r.Context(), q.Repo, account.WriteRight); err == nil {
		err = h.wish(r.Context(), q, queue.PreflightWanted{})
	}
	return page + "&done=looked", returning(err, page)
}

// returning makes a refusal lead back to a page.
func returning(err error, page string) error {
	var refused refusal
	if errors.As(err, &refused) {
		refused.back = page
		return refused
	}
	return err
}

// change has a queue changed by an administrator.
func (h *Handler) change(ctx context.Context, q queue.Queue, change queue.Change, page string) error {
	err := h.need(ctx, q.Repo, account.AdminRight)
	if err == nil {
		v := visitorOf(ctx)
		err = h.wish(ctx, q, queue.ChangeRequested{Change: change, By: v.actor, Via: v.via(), At: h.clock().UTC().Truncate(time.Microsecond)})
	}
	return returning(err, page)
}

// trimmed is a text of lines as it compares, whatever a browser made of their ends.
func trimmed(text string) string {
	return strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
}
