package rest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"signalbox/account"
)

// The longest texts of a request about subscribers, in bytes, and the longest
// lists.
const (
	maxSubscriberName = 100
	maxAddress        = 2000
	maxEventName      = 100
	maxEventNames     = 100
	maxRepositories   = 200
)

// subscriber is a subscriber in an answer. Its address is shown without what
// may be a secret.
type subscriber struct {
	ID              string     `json:"id"`
	Kind            string     `json:"kind"`
	Name            string     `json:"name"`
	Address         string     `json:"address"`
	Events          []string   `json:"events"`
	Repos           []repoName `json:"repos"` // []: every repository
	Enabled         bool       `json:"enabled"`
	DisabledReason  *string    `json:"disabledReason"` // null: nobody but a person switched it off
	CreatedAt       moment     `json:"createdAt"`
	LastDeliveredAt *moment    `json:"lastDeliveredAt"`
	FailingSince    *moment    `json:"failingSince"`
}

// repoName is a repository in an answer.
type repoName struct {
	Host  string `json:"host"`
	Owner string `json:"owner"`
	Name  string `json:"name"`
}

// freshSubscriber is a subscriber with the secret that was just made for it.
type freshSubscriber struct {
	subscriber
	Secret *string `json:"secret"` // null: its deliveries are not signed
}

func encodeSubscriber(s account.Subscriber) subscriber {
	out := subscriber{
		ID: s.ID, Kind: string(s.Kind), Name: s.Name, Address: s.Address, Events: list(s.Events), Repos: []repoName{}, Enabled: s.Enabled,
		DisabledReason: valueOrNull(s.Why), CreatedAt: moment(s.CreatedAt), LastDeliveredAt: momentOrNull(s.Health.DeliveredAt), FailingSince: momentOrNull(s.Health.FailingSince),
	}
	for _, r := range s.Repositories {
		out.Repos = append(out.Repos, repoName{r.Host, r.Owner, r.Name})
	}
	return out
}

// subscriberWish is what a request says about a subscriber; nil = nothing.
type subscriberWish struct {
	name, url *string
	kind      *account.SubscriberKind
	events    *[]string
	repos     *[]place
	enabled   *bool
}

// texts reads a list of names that are not empty.
func texts(to **[]string, most, longest int) func(*form, value) {
	return func(f *form, v value) {
		names := []string{}
		if f.array(v, "strings", most, func(item value) {
			if name, ok := textIn(f, item, longest); ok {
				names = append(names, name)
			}
		}) {
			*to = &names
		}
	}
}

// repos reads a list of repositories.
func repos(to **[]place) func(*form, value) {
	return func(f *form, v value) {
		places := []place{}
		if f.array(v, "objects", maxRepositories, func(item value) {
			var p place
			p.repoField().read(f, item)
			places = append(places, p)
		}) {
			*to = &places
		}
	}
}

// watched finds the repositories that a request names.
func (a *API) watched(ctx context.Context, c *call, places *[]place) (found []account.Watched, err error) {
	if places == nil {
		return nil, nil
	}
	for _, p := range *places {
		p.host = a.host(p.host)
		repo, err := a.findRepository(ctx, c, p)
		if err != nil {
			return nil, err
		}
		w := account.Watched{ID: int64(repo.ID), Host: repo.Host, Owner: repo.Owner, Name: repo.Name}
		if !slices.Contains(found, w) {
			found = append(found, w)
		}
	}
	return found, nil
}

// subscriberID reads which subscriber a request is about.
func subscriberID(to *string) field { return required("subscriberId", text(to, maxRunID)) }

// toldFailure is what the caller is told about an error of Subscribers.
func toldFailure(doing string, err error, id string) error {
	var wrong account.Invalid
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return invalidRequest(string(wrong))
	}
	return orNotFound(fmt.Errorf("%s: %w", doing, err), notFound(CodeSubscriberNotFound, "There is no subscriber %s.", clip(id)))
}

func (a *API) createSubscriber(ctx context.Context, c *call) (any, error) {
	var w subscriberWish
	err := decode(c.body,
		required("name", textWish(&w.name, maxSubscriberName)), required("url", textWish(&w.url, maxAddress)),
		optional("kind", oneOf(&w.kind, account.SubscriberKinds...)),
		required("events", texts(&w.events, maxEventNames, maxEventName)), optional("repos", repos(&w.repos)))
	if err != nil {
		return nil, err
	}
	where, err := a.watched(ctx, c, w.repos)
	if err != nil {
		return nil, err
	}
	kind := account.WebhookSubscriber
	assign(&kind, w.kind)
	s, secret, err := a.told.Create(ctx, c.org.ID, account.Subscriber{Name: *w.name, Kind: kind, Events: *w.events, Repositories: where}, *w.url)
	if err != nil {
		return nil, toldFailure("create a subscriber", err, "")
	}
	return freshSubscriber{encodeSubscriber(s), valueOrNull(secret)}, nil
}

func (a *API) listSubscribers(ctx context.Context, c *call) (any, error) {
	if err := decode(c.body); err != nil {
		return nil, err
	}
	subscribers, err := a.told.List(ctx, c.org.ID)
	if err != nil {
		return nil, fmt.Errorf("list subscribers: %w", err)
	}
	out := struct {
		Subscribers []subscriber `json:"subscribers"`
	}{[]subscriber{}}
	for _, s := range subscribers {
		out.Subscribers = append(out.Subscribers, encodeSubscriber(s))
	}
	return out, nil
}

func (a *API) updateSubscriber(ctx context.Context, c *call) (any, error) {
	var id string
	var w subscriberWish
	err := decode(c.body, subscriberID(&id),
		optional("name", textWish(&w.name, maxSubscriberName)), optional("url", textWish(&w.url, maxAddress)),
		optional("events", texts(&w.events, maxEventNames, maxEventName)), optional("repos", repos(&w.repos)),
		optional("enabled", boolean(&w.enabled)))
	if err != nil {
		return nil, err
	}
	where, err := a.watched(ctx, c, w.repos)
	if err != nil {
		return nil, err
	}
	s, err := a.told.Change(ctx, c.org.ID, id, w.url, func(s *account.Subscriber) {
		assign(&s.Name, w.name)
		assign(&s.Events, w.events)
		assign(&s.Enabled, w.enabled)
		if w.repos != nil {
			s.Repositories = where
		}
	})
	if err != nil {
		return nil, toldFailure("change a subscriber", err, id)
	}
	return encodeSubscriber(s), nil
}

// assign gives a field the value that was wished for, if one was.
func assign[T any](field *T, wish *T) {
	if wish != nil {
		*field = *wish
	}
}

func (a *API) deleteSubscriber(ctx context.Context, c *call) (any, error) {
	var id string
	if err := decode(c.body, subscriberID(&id)); err != nil {
		return nil, err
	}
	return struct{}{}, toldFailure("delete a subscriber", a.told.Delete(ctx, c.org.ID, id), id)
}

func (a *API) rotateSubscriberSecret(ctx context.Context, c *call) (any, error) {
	var id string
	if err := decode(c.body, subscriberID(&id)); err != nil {
		return nil, err
	}
	secret, err := a.told.Rotate(ctx, c.org.ID, id)
	return struct {
		Secret string `json:"secret"`
	}{secret}, toldFailure("make a new secret", err, id)
}

// delivery is an event on its way to a subscriber, in an answer.
type delivery struct {
	ID            string    `json:"id"`
	WebhookID     string    `json:"webhookId"`
	Type          string    `json:"type"`
	HappenedAt    moment    `json:"happenedAt"`
	State         string    `json:"state"`
	Redelivery    bool      `json:"redelivery"`
	NextAttemptAt *moment   `json:"nextAttemptAt"`
	Attempts      []attempt `json:"attempts"`
	Body          string    `json:"body"` // exactly as it is sent
}

// attempt is one attempt at a delivery.
type attempt struct {
	At       moment `json:"at"`
	Status   int    `json:"status"` // 0: there was no answer
	Duration int64  `json:"durationMilliseconds"`
	Problem  string `json:"problem"`
	Answer   string `json:"answer"` // the beginning of it
}

func (a *API) encodeDelivery(s account.Subscriber, org account.Organization, d account.Delivery) (delivery, error) {
	body, err := a.told.Sent(s.Kind, org, d)
	if err != nil {
		return delivery{}, fmt.Errorf("show a delivery: %w", err)
	}
	out := delivery{
		ID: strconv.FormatInt(d.ID, 10), WebhookID: "msg_" + d.Event, Type: d.Type, HappenedAt: moment(d.At), State: string(d.State), Redelivery: d.Again,
		NextAttemptAt: momentOrNull(d.NextAt), Attempts: []attempt{}, Body: string(body),
	}
	for _, t := range d.Tries {
		out.Attempts = append(out.Attempts, attempt{moment(t.At), t.Status, t.Milliseconds, t.Error, t.Answer})
	}
	return out, nil
}

func (a *API) testSubscriber(ctx context.Context, c *call) (any, error) {
	var id string
	if err := decode(c.body, subscriberID(&id)); err != nil {
		return nil, err
	}
	s, err := a.told.Find(ctx, c.org.ID, id)
	if err != nil {
		return nil, toldFailure("find a subscriber", err, id)
	}
	d, err := a.told.Test(ctx, c.org, id)
	if err != nil {
		return nil, toldFailure("test a subscriber", err, id)
	}
	return a.encodeDelivery(s, c.org, d)
}

// deliveryList is what makes a list of deliveries this one and no other.
type deliveryList struct {
	List       string
	Org        int64
	Subscriber string
}

func (a *API) listDeliveries(ctx context.Context, c *call) (any, error) {
	var id string
	var cursor *string
	take := new(int64)
	*take = defaultTake
	if err := decode(c.body, subscriberID(&id), optional("cursor", textWish(&cursor, maxCursor)), optional("take", integerUpTo(&take, 1, maxTake))); err != nil {
		return nil, err
	}
	what := deliveryList{"listDeliveries", c.org.ID, id}
	key, err := a.cursorKey(ctx)
	if err != nil {
		return nil, err
	}
	var below int64
	if cursor != nil {
		if below, err = readCursor(key, what, *cursor, "cursor must be the nextCursor of an answer about the same subscriber."); err != nil {
			return nil, err
		}
	}
	s, err := a.told.Find(ctx, c.org.ID, id)
	if err != nil {
		return nil, toldFailure("find a subscriber", err, id)
	}
	deliveries, err := a.told.Deliveries(ctx, c.org.ID, id, below, int(*take)+1)
	if err != nil {
		return nil, toldFailure("list deliveries", err, id)
	}
	out := struct {
		Deliveries []delivery `json:"deliveries"`
		NextCursor string     `json:"nextCursor,omitempty"` // left out on the last page
	}{Deliveries: []delivery{}}
	if len(deliveries) > int(*take) {
		deliveries = deliveries[:*take]
		if out.NextCursor, err = signCursor(key, what, deliveries[*take-1].ID); err != nil {
			return nil, err
		}
	}
	for _, d := range deliveries {
		shown, err := a.encodeDelivery(s, c.org, d)
		if err != nil {
			return nil, err
		}
		out.Deliveries = append(out.Deliveries, shown)
	}
	return out, nil
}

func (a *API) redeliver(ctx context.Context, c *call) (any, error) {
	var id, given string
	if err := decode(c.body, subscriberID(&id), required("deliveryId", text(&given, maxRunID))); err != nil {
		return nil, err
	}
	missing := notFound(CodeDeliveryNotFound, "There is no delivery %s to this subscriber.", clip(given))
	number, err := strconv.ParseInt(given, 10, 64)
	if err != nil {
		return nil, missing
	}
	s, err := a.told.Find(ctx, c.org.ID, id)
	if err != nil {
		return nil, toldFailure("find a subscriber", err, id)
	}
	d, err := a.told.Redeliver(ctx, c.org.ID, id, number)
	if err != nil {
		return nil, orNotFound(fmt.Errorf("deliver again: %w", err), missing)
	}
	return a.encodeDelivery(s, c.org, d)
}
