package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"

	"signalbox/account"
	"signalbox/queue"
)

// The pages of those who are told what happens in an organisation: who they are,
// and what became of everything that they were told. What goes out says as much
// as all queues of the organisation, so it takes an administrator of every
// repository of it.

// deliveriesShown is how many deliveries a page of the log has.
const deliveriesShown = 50

// subscribersView is the page of all subscribers.
type subscribersView struct {
	Org   string
	Rows  []subscriberRow
	Fresh *freshToken // a subscriber that was just made, with its secret
	Wants wants
	CSRF  string
	Told  string
	Now   moment
}

// subscriberRow is a subscriber in a list.
type subscriberRow struct {
	ID, URL             string
	Name, Kind, Address string
	Events, Repos       string
	State               badge
	Why                 string
	Delivered           moment
	Enabled, Signed     bool
}

// wants are the fields of a form that say what a subscriber is told.
type wants struct {
	Topics []topic
	Repos  []wish
}

// topic is a heading with the events under it.
type topic struct {
	Name   string
	Events []wish
}

// wish is something to choose, or not.
type wish struct {
	Value, About string
	On           bool
}

func (subscribersView) template() string { return "subscribers" }

// Heading is the page's title.
func (v subscribersView) Heading() string { return "Webhooks and Slack of " + v.Org }

// subscriberView is the page of one subscriber.
type subscriberView struct {
	Org        string
	Subscriber subscriberRow
	Wants      wants
	Fresh      *freshToken
	Rows       []deliveryRow
	Older      string // address of the next page; "" = there is none
	CSRF       string
	Told       string
	Now        moment
}

// deliveryRow is a delivery in the log.
type deliveryRow struct {
	ID       int64
	Type     string
	At       moment
	State    badge
	Again    bool
	Next     moment
	Attempts []attemptRow
	Body     string
	Ended    bool // it can be asked for once more
}

// attemptRow is one attempt at a delivery.
type attemptRow struct {
	At      moment
	Said    string // the status, or that there was no answer
	Took    string
	Problem string
	Answer  string
}

func (subscriberView) template() string { return "subscriber" }

// Heading is the page's title.
func (v subscriberView) Heading() string { return v.Subscriber.Name + " of " + v.Org }

// kindNames are the kinds of subscribers as people read them.
var kindNames = map[account.SubscriberKind]string{account.WebhookSubscriber: "webhook", account.SlackSubscriber: "Slack"}

func subscribersURL(org string) string { return "/orgs/" + url.PathEscape(org) + "/subscribers" }

// toldOrg finds the organisation whose subscribers a request is about, with its
// repositories.
func (h *Handler) toldOrg(r *http.Request, fresh bool) (account.Organization, []queue.Repo, error) {
	if h.told == nil {
		return account.Organization{}, nil, queue.ErrNotFound
	}
	return h.administered(r, fresh)
}

func (h *Handler) subscribers(r *http.Request) (frame, error) {
	org, repos, err := h.toldOrg(r, false)
	if err != nil {
		return frame{}, err
	}
	v, err := h.subscribersOf(r, org, repos)
	return subscribersFrame(v, org.Slug), err
}

// subscribersFrame is what is around the pages of subscribers.
func subscribersFrame(v view, org string) frame {
	return frame{View: v, Tabs: orgTabs(org, subscribersURL(org))}
}

func (h *Handler) subscribersOf(r *http.Request, org account.Organization, repos []queue.Repo) (subscribersView, error) {
	v := subscribersView{Org: org.Slug, Wants: h.wantsOf(account.Subscriber{}, repos), CSRF: visitorOf(r.Context()).csrf, Told: told(r), Now: at(h.clock(), h.clock())}
	list, err := h.told.List(r.Context(), org.ID)
	if err != nil {
		return v, fmt.Errorf("list subscribers: %w", err)
	}
	for _, s := range list {
		v.Rows = append(v.Rows, viewSubscriber(org, s, h.clock()))
	}
	return v, nil
}

// wantsOf are the fields that say what a subscriber is told, as they are now. Who
// ticks everything, or everything of a topic, is also told what a later version
// adds.
func (h *Handler) wantsOf(s account.Subscriber, repos []queue.Repo) wants {
	event := func(name, about string) wish { return wish{name, about, slices.Contains(s.Events, name)} }
	w := wants{Topics: []topic{{"Everything", []wish{event("*", "All events of all topics, also those that are added later.")}}}}
	for _, k := range h.told.EventKinds() {
		if w.Topics[len(w.Topics)-1].Name != k.Topic {
			family, _, _ := strings.Cut(k.Type, ".")
			w.Topics = append(w.Topics, topic{k.Topic, []wish{event(family+".*", "All of these, also those that are added later.")}})
		}
		last := &w.Topics[len(w.Topics)-1]
		last.Events = append(last.Events, event(k.Type, k.About))
	}
	for _, repo := range repos {
		on := slices.ContainsFunc(s.Repositories, func(w account.Watched) bool { return w.ID == int64(repo.ID) })
		w.Repos = append(w.Repos, wish{strconv.FormatInt(int64(repo.ID), 10), repo.Owner + "/" + repo.Name, on})
	}
	return w
}

func viewSubscriber(org account.Organization, s account.Subscriber, now time.Time) subscriberRow {
	row := subscriberRow{
		ID: s.ID, URL: subscribersURL(org.Slug) + "/" + url.PathEscape(s.ID), Name: s.Name, Kind: kindNames[s.Kind], Address: s.Address,
		Events: strings.Join(s.Events, ", "), Repos: "every repository", Why: s.Why, Enabled: s.Enabled, Signed: s.Kind == account.WebhookSubscriber,
		Delivered: at(s.Health.DeliveredAt, now), State: badge{"on", "good"},
	}
	switch {
	case !s.Enabled:
		row.State = badge{"off", "off"}
	case !s.Health.FailingSince.IsZero():
		row.State = badge{"failing", "bad"}
		row.Why = "Nothing has arrived since " + at(s.Health.FailingSince, now).Exact + ". It is tried again; see the log."
	}
	var names []string
	for _, w := range s.Repositories {
		names = append(names, w.Owner+"/"+w.Name)
	}
	if len(names) > 0 {
		row.Repos = strings.Join(names, ", ")
	}
	return row
}

// subscribe makes a subscriber and shows its secret, on this answer alone.
func (h *Handler) subscribe(w http.ResponseWriter, r *http.Request) {
	v, err := h.newSubscriber(r)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	h.render(w, r, http.StatusOK, subscribersFrame(v, v.Org))
}

func (h *Handler) newSubscriber(r *http.Request) (subscribersView, error) {
	org, repos, err := h.toldOrg(r, true)
	if err != nil {
		return subscribersView{}, err
	}
	back := subscribersURL(org.Slug)
	want, err := wanted(r, repos, back)
	if err != nil {
		return subscribersView{}, err
	}
	s, secret, err := h.told.Create(authored(r.Context()), org.ID, want, strings.TrimSpace(r.PostForm.Get("url")))
	if err != nil {
		return subscribersView{}, notTold(err, back)
	}
	v, err := h.subscribersOf(r, org, repos)
	v.Fresh = &freshToken{s.Name, secret}
	return v, err
}

// wanted reads a form that says what a subscriber is to be.
func wanted(r *http.Request, repos []queue.Repo, back string) (account.Subscriber, error) {
	want := account.Subscriber{Name: r.PostForm.Get("name"), Kind: account.SubscriberKind(r.PostForm.Get("kind")), Events: r.PostForm["events"]}
	if !storable(want.Name) {
		return want, refusal{http.StatusBadRequest, "Give it a name.", back}
	}
	for _, text := range r.PostForm["repos"] {
		i := slices.IndexFunc(repos, func(repo queue.Repo) bool { return strconv.FormatInt(int64(repo.ID), 10) == text })
		if i < 0 {
			return want, refusal{http.StatusBadRequest, "There is no such repository in the organisation.", back}
		}
		want.Repositories = append(want.Repositories, account.Watched{ID: int64(repos[i].ID), Host: repos[i].Host, Owner: repos[i].Owner, Name: repos[i].Name})
	}
	return want, nil
}

// notTold is what a visitor reads of an error about subscribers.
func notTold(err error, back string) error {
	var wrong account.Invalid
	if errors.As(err, &wrong) {
		return refusal{http.StatusBadRequest, string(wrong), back}
	}
	return err
}

func (h *Handler) subscriber(r *http.Request) (frame, error) {
	org, repos, err := h.toldOrg(r, false)
	if err != nil {
		return frame{}, err
	}
	v, err := h.subscriberOf(r, org, repos)
	return subscribersFrame(v, org.Slug), err
}

func (h *Handler) subscriberOf(r *http.Request, org account.Organization, repos []queue.Repo) (subscriberView, error) {
	now := h.clock()
	v := subscriberView{Org: org.Slug, CSRF: visitorOf(r.Context()).csrf, Told: told(r), Now: at(now, now)}
	id := httprouter.ParamsFromContext(r.Context()).ByName("id")
	s, err := h.told.Find(r.Context(), org.ID, id)
	if err != nil {
		return v, err
	}
	v.Subscriber, v.Wants = viewSubscriber(org, s, now), h.wantsOf(s, repos)
	below, _ := strconv.ParseInt(r.URL.Query().Get("below"), 10, 64) // 0 = from the newest
	list, err := h.told.Deliveries(r.Context(), org.ID, id, max(below, 0), deliveriesShown+1)
	if err != nil {
		return v, fmt.Errorf("list deliveries: %w", err)
	}
	if len(list) > deliveriesShown {
		list = list[:deliveriesShown]
		v.Older = fmt.Sprintf("%s?below=%d", v.Subscriber.URL, list[deliveriesShown-1].ID)
	}
	for _, d := range list {
		body, err := h.told.Sent(s.Kind, org, d)
		if err != nil {
			return v, fmt.Errorf("show a delivery: %w", err)
		}
		v.Rows = append(v.Rows, viewDelivery(d, body, now))
	}
	return v, nil
}

func viewDelivery(d account.Delivery, body []byte, now time.Time) deliveryRow {
	row := deliveryRow{
		ID: d.ID, Type: d.Type, At: at(d.At, now), Again: d.Again, Body: string(body), Ended: d.State != account.Waiting,
		State: map[account.DeliveryState]badge{account.Waiting: {"waiting", "wait"}, account.Delivered: {"delivered", "good"}, account.GivenUp: {"given up", "bad"}}[d.State],
	}
	if d.State == account.Waiting && len(d.Tries) > 0 {
		row.Next = at(d.NextAt, now)
	}
	for _, t := range d.Tries {
		a := attemptRow{At: at(t.At, now), Said: "no answer", Took: fmt.Sprintf("%d ms", t.Milliseconds), Problem: t.Error, Answer: t.Answer}
		if t.Status != 0 {
			a.Said = fmt.Sprint("status ", t.Status)
		}
		row.Attempts = append(row.Attempts, a)
	}
	return row
}

// subscriberDeed does what a form of a subscriber's page asks for. A new secret
// is shown on this answer alone.
func (h *Handler) subscriberDeed(w http.ResponseWriter, r *http.Request) {
	org, repos, err := h.toldOrg(r, true)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	to, secret, err := h.tend(r, org, repos)
	switch {
	case err != nil:
		h.refuse(w, r, err)
	case secret == "":
		http.Redirect(w, r, to, http.StatusSeeOther)
	default:
		v, err := h.subscriberOf(r, org, repos)
		if err != nil {
			h.refuse(w, r, err)
			return
		}
		v.Fresh = &freshToken{v.Subscriber.Name, secret}
		h.render(w, r, http.StatusOK, subscribersFrame(v, v.Org))
	}
}

// tend does a deed to a subscriber, and says where to go, or the secret that was
// made.
func (h *Handler) tend(r *http.Request, org account.Organization, repos []queue.Repo) (to, secret string, err error) {
	ctx, id := authored(r.Context()), httprouter.ParamsFromContext(r.Context()).ByName("id")
	page := subscribersURL(org.Slug) + "/" + url.PathEscape(id)
	switch deed := r.PostForm.Get("deed"); deed {
	case "test":
		_, err = h.told.Test(ctx, org, id)
		to = page + "?done=tested"
	case "rotate":
		secret, err = h.told.Rotate(ctx, org.ID, id)
	case "on", "off":
		_, err = h.told.Change(ctx, org.ID, id, nil, func(s *account.Subscriber) { s.Enabled = deed == "on" })
		to = page + "?done=told-" + deed
	case "change":
		err = h.changeSubscriber(r.WithContext(ctx), org, repos, id, page)
		to = page + "?done=told-changed"
	case "redeliver":
		var number int64
		if number, err = strconv.ParseInt(r.PostForm.Get("delivery"), 10, 64); err != nil {
			err = queue.ErrNotFound
			break
		}
		_, err = h.told.Redeliver(ctx, org.ID, id, number)
		to = page + "?done=redelivered"
	case "delete":
		err = h.told.Delete(ctx, org.ID, id)
		to = subscribersURL(org.Slug) + "?done=untold"
	default:
		err = queue.ErrNotFound
	}
	return to, secret, notTold(err, page)
}

// changeSubscriber does what the form of changes says. An address that is left
// empty stays: the page does not show it, because it may be a secret.
func (h *Handler) changeSubscriber(r *http.Request, org account.Organization, repos []queue.Repo, id, page string) error {
	want, err := wanted(r, repos, page)
	if err != nil {
		return err
	}
	var address *string
	if text := strings.TrimSpace(r.PostForm.Get("url")); text != "" {
		address = &text
	}
	_, err = h.told.Change(r.Context(), org.ID, id, address, func(s *account.Subscriber) {
		s.Name, s.Events, s.Repositories = want.Name, want.Events, want.Repositories
	})
	return err
}
