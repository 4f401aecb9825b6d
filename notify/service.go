package notify

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"signalbox/account"
	"signalbox/queue"
)

// Store keeps subscribers and what is to be delivered to them. Everything about
// one subscriber is scoped by its organisation: what belongs to another is
// queue.ErrNotFound. Changes are written down in the audit log, in the name of
// account.AuthorOf(ctx).
type Store interface {
	Subscribers(ctx context.Context, org int64) ([]account.Subscriber, error)
	Subscriber(ctx context.Context, org int64, id string) (account.Subscriber, error)
	// AddSubscriber keeps a new one with its endpoint, encrypted.
	// account.Invalid: there are too many.
	AddSubscriber(ctx context.Context, org int64, s account.Subscriber, sealed []byte) (account.Subscriber, error)
	// ChangeSubscriber does what change does, under a lock; if nothing is
	// different, nothing is written down. change is given the encrypted endpoint,
	// and returns what takes its place; nil = it stays. It may be called again.
	ChangeSubscriber(ctx context.Context, org int64, id string, deed account.Deed, change func(s *account.Subscriber, sealed []byte) (fresh []byte, err error)) (account.Subscriber, error)
	DeleteSubscriber(ctx context.Context, org int64, id string) error
	// Deliveries lists the newest first, those with a smaller number than below
	// unless that is 0.
	Deliveries(ctx context.Context, org int64, id string, below int64, take int) ([]account.Delivery, error)
	Redeliver(ctx context.Context, org int64, id string, delivery int64) (account.Delivery, error)
	// AddTestDelivery adds a delivery that the subscriber need not want.
	AddTestDelivery(ctx context.Context, org int64, id, kind string, body any) (account.Delivery, error)

	// DeliveriesAdded yields a value when there may be more to deliver. One can
	// be lost; the channel is closed when ctx ends.
	DeliveriesAdded(ctx context.Context) (<-chan queue.News, error)
	// ClaimDeliveries holds a subscriber for which something is due, until a
	// moment, and returns a round of what is: at most one delivery of each
	// subject, the first that waits; the oldest wide(subscriber) of them.
	ClaimDeliveries(ctx context.Context, now, until time.Time, wide func(account.Subscriber) int) (account.Sending, bool, error)
	// RecordDeliveries ends the hold. A subscriber that is disabled with a
	// reason is switched off.
	RecordDeliveries(ctx context.Context, round account.Sending, tried []account.Tried, health account.Health, disabled string) error
	// NextDelivery is when something is due that is not due now; zero = nothing.
	NextDelivery(ctx context.Context, now time.Time) (time.Time, error)
}

// Box encrypts what the database must not know. about is what the text belongs
// to: a text that was sealed about one thing does not open about another.
type Box interface {
	Seal(ctx context.Context, text []byte, about string) ([]byte, error)
	Open(ctx context.Context, sealed []byte, about string) ([]byte, error)
}

// Clock is the time, as a test may move it.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

// Links makes the addresses of our pages.
type Links struct {
	Queue       func(repo queue.Repo, branch string) string
	PullRequest func(repo queue.Repo, branch string, number int64) string
	Run         func(repo queue.Repo, branch string, run queue.RunID) string
}

// Config is what a Service is made of. Store, Box, Clock and Links are needed.
type Config struct {
	Store Store
	Box   Box
	Clock Clock
	Links Links
	// Allowed are networks that are no part of the public Internet and may be
	// reached all the same, with plain http too. The operator's choice.
	Allowed []netip.Prefix
	// Workers is how many subscribers are told things at once; 0 = 8.
	Workers int
	// Attempted hears of each attempt; nil = nobody does.
	Attempted func(kind account.SubscriberKind, outcome Outcome, took time.Duration)
	// Version is the program's, for the User-Agent.
	Version string
	Log     *slog.Logger // nil = nowhere
	// Roots are the authorities that certificates come from; nil = the system's.
	Roots *x509.CertPool
	// Random makes secrets and ids; nil = crypto/rand.
	Random io.Reader
}

// Service keeps subscribers, and tells them things while Run runs.
type Service struct {
	store     Store
	box       Box
	clock     Clock
	links     Links
	allowed   []netip.Prefix
	workers   int
	attempted func(account.SubscriberKind, Outcome, time.Duration)
	agent     string
	log       *slog.Logger
	random    io.Reader
	secure    *http.Client // for https
	plain     *http.Client // for http
}

// New makes a Service. It starts nothing.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Box == nil || cfg.Clock == nil || cfg.Links.Queue == nil || cfg.Links.PullRequest == nil || cfg.Links.Run == nil {
		return nil, errors.New("make the service of subscribers: Store, Box, Clock or Links is missing")
	}
	s := &Service{
		store: cfg.Store, box: cfg.Box, clock: cfg.Clock, links: cfg.Links, allowed: cfg.Allowed, workers: cmp.Or(max(cfg.Workers, 0), 8),
		attempted: cfg.Attempted, agent: "Signalbox/" + cmp.Or(cfg.Version, "devel"), log: cfg.Log, random: cfg.Random,
	}
	if s.attempted == nil {
		s.attempted = func(account.SubscriberKind, Outcome, time.Duration) {}
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.random == nil {
		s.random = rand.Reader
	}
	s.secure, s.plain = s.newClient(true, cfg.Roots), s.newClient(false, cfg.Roots)
	return s, nil
}

// secretPrefix begins a secret, by the rules of Standard Webhooks.
const secretPrefix = "whsec_"

// newSecret makes the secret of an endpoint: 256 random bits.
func (s *Service) newSecret() (string, error) {
	var bits [32]byte
	if _, err := io.ReadFull(s.random, bits[:]); err != nil {
		return "", fmt.Errorf("make a secret: %w", err)
	}
	return secretPrefix + base64.StdEncoding.EncodeToString(bits[:]), nil
}

// oldSecretLives is how long a secret that was replaced still signs, so that a
// receiver has time to change it.
const oldSecretLives = 24 * time.Hour

// about is what an endpoint is sealed about.
func about(id string) string { return "subscriber " + id }

func (s *Service) seal(ctx context.Context, id string, e account.Endpoint) ([]byte, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode the endpoint: %w", err)
	}
	return s.box.Seal(ctx, text, about(id))
}

func (s *Service) open(ctx context.Context, id string, sealed []byte) (e account.Endpoint, err error) {
	text, err := s.box.Open(ctx, sealed, about(id))
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(text, &e); err != nil {
		return e, errors.New("the endpoint in the database is damaged") // the cause would quote it
	}
	return e, nil
}

// checked is a subscriber as it may be kept, with a name and events that make
// sense.
func checked(sub *account.Subscriber) (err error) {
	sub.Name = strings.TrimSpace(printable(strings.ToValidUTF8(sub.Name, "")))
	if sub.Name == "" || len(sub.Name) > 100 {
		return account.Invalid("Give it a name of 1 to 100 characters, such as what receives it.")
	}
	if !slices.Contains(account.SubscriberKinds, sub.Kind) {
		return account.Invalid("The kind must be webhook or slack.")
	}
	sub.Events, err = checkEvents(sub.Events)
	return err
}

// Create makes a subscriber of that kind and name that is told what happens:
// the events and repositories that it names. secret is what its deliveries are
// signed with, shown this once; "" for Slack, where the address is the secret.
// account.Invalid: something of it cannot be. queue.ErrNotFound: a repository is
// not the organisation's.
func (s *Service) Create(ctx context.Context, org int64, want account.Subscriber, address string) (sub account.Subscriber, secret string, err error) {
	if err := checked(&want); err != nil {
		return sub, "", err
	}
	u, err := s.checkURL(address)
	if err != nil {
		return sub, "", err
	}
	id, err := uuid.NewRandomFromReader(s.random)
	if err != nil {
		return sub, "", fmt.Errorf("make an id: %w", err)
	}
	end := account.Endpoint{URL: u.String()}
	if want.Kind == account.WebhookSubscriber {
		if secret, err = s.newSecret(); err != nil {
			return sub, "", err
		}
		end.Secrets = []account.SigningSecret{{Text: secret}}
	}
	want.ID, want.Address = id.String(), shownURL(u)
	sealed, err := s.seal(ctx, want.ID, end)
	if err != nil {
		return sub, "", err
	}
	sub, err = s.store.AddSubscriber(ctx, org, want, sealed)
	return sub, secret, err
}

// List lists the subscribers of an organisation, the oldest first.
func (s *Service) List(ctx context.Context, org int64) ([]account.Subscriber, error) {
	return s.store.Subscribers(ctx, org)
}

// Find finds a subscriber of an organisation. queue.ErrNotFound: it has none such.
func (s *Service) Find(ctx context.Context, org int64, id string) (account.Subscriber, error) {
	return s.store.Subscriber(ctx, org, id)
}

// Change changes a subscriber: what change does with its name, events,
// repositories and whether it is enabled, and its address; nil = that stays. Its
// secret stays, too. One that is enabled again, or has another address, is told
// at once what still waits for it.
func (s *Service) Change(ctx context.Context, org int64, id string, address *string, change func(*account.Subscriber)) (account.Subscriber, error) {
	var u *url.URL
	if address != nil {
		var err error
		if u, err = s.checkURL(*address); err != nil {
			return account.Subscriber{}, err
		}
	}
	return s.store.ChangeSubscriber(ctx, org, id, account.SubscriberChanged, func(sub *account.Subscriber, sealed []byte) ([]byte, error) {
		change(sub)
		if err := checked(sub); err != nil || u == nil {
			return nil, err
		}
		return s.resealed(ctx, id, sealed, func(end *account.Endpoint) bool {
			same := end.URL == u.String()
			end.URL, sub.Address = u.String(), shownURL(u)
			return !same
		})
	})
}

// resealed is an endpoint as change leaves it, or nil when that says that it is
// the same.
func (s *Service) resealed(ctx context.Context, id string, sealed []byte, change func(*account.Endpoint) bool) ([]byte, error) {
	end, err := s.open(ctx, id, sealed)
	if err != nil || !change(&end) {
		return nil, err
	}
	return s.seal(ctx, id, end)
}

// Rotate gives a subscriber a new secret, which is shown this once. The one
// before it still signs for a day: until then every delivery has both
// signatures. One that was replaced already is forgotten.
func (s *Service) Rotate(ctx context.Context, org int64, id string) (secret string, err error) {
	if secret, err = s.newSecret(); err != nil {
		return "", err
	}
	_, err = s.store.ChangeSubscriber(ctx, org, id, account.SubscriberRotated, func(sub *account.Subscriber, sealed []byte) ([]byte, error) {
		if sub.Kind != account.WebhookSubscriber {
			return nil, account.Invalid("Slack's messages are not signed: the address is the secret. Make a new one in Slack, and change the address.")
		}
		return s.resealed(ctx, id, sealed, func(end *account.Endpoint) bool {
			fresh := []account.SigningSecret{{Text: secret}}
			if len(end.Secrets) > 0 {
				fresh = append(fresh, account.SigningSecret{Text: end.Secrets[0].Text, Until: s.clock.Now().Add(oldSecretLives)})
			}
			end.Secrets = fresh
			return true
		})
	})
	return secret, err
}

// Delete forgets a subscriber with everything that was delivered to it.
func (s *Service) Delete(ctx context.Context, org int64, id string) error {
	return s.store.DeleteSubscriber(ctx, org, id)
}

// Test has a ping delivered to a subscriber. What becomes of it is seen in the
// log of deliveries.
func (s *Service) Test(ctx context.Context, org account.Organization, id string) (account.Delivery, error) {
	return s.store.AddTestDelivery(ctx, org.ID, id, Ping, pingData{Organization: org.Slug, Subscriber: id, Message: "Signalbox can reach you."})
}

// Deliveries lists what is or was to be delivered to a subscriber, the newest
// first: those with a smaller number than below, unless that is 0, take at most.
func (s *Service) Deliveries(ctx context.Context, org int64, id string, below int64, take int) ([]account.Delivery, error) {
	return s.store.Deliveries(ctx, org, id, below, take)
}

// Redeliver has an event delivered once more, under the same id.
func (s *Service) Redeliver(ctx context.Context, org int64, id string, delivery int64) (account.Delivery, error) {
	return s.store.Redeliver(ctx, org, id, delivery)
}

// Sent is the body that a delivery has, exactly as it is sent.
func (s *Service) Sent(kind account.SubscriberKind, org account.Organization, d account.Delivery) ([]byte, error) {
	if kind == account.SlackSubscriber {
		return s.slackMessage(d)
	}
	return s.payload(org, d)
}
