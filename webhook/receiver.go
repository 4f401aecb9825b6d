package webhook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-github/v60/github"
)

const (
	// maxBody is the largest payload that GitHub sends.
	maxBody = 25 << 20
	// storeTimeout ends before the host's own patience does (ten seconds on
	// GitHub), so that it sees our 503 and not a broken connection.
	storeTimeout = 8 * time.Second
	// maxDelivery bounds a delivery id; GitHub's are UUIDs.
	maxDelivery = 128
)

// Config is what a Receiver is made of.
type Config struct {
	// Secret is the webhook secret of the App. It is mandatory.
	Secret []byte
	// Store remembers deliveries. It is mandatory.
	Store Store
	// Host is the name under which repositories of this host are kept;
	// "" = "github.com".
	Host string
	// AppID is our App's number. Check runs and suites that it made are no
	// reports. 0 = not known: nothing is left out.
	AppID int64
	// AppSlug is our App's slug: what "<slug>[bot]" sends is no command.
	AppSlug string
	// Marker is a text that every comment of ours contains. A bot whose
	// comment contains it is taken for us even when AppSlug is not known;
	// with "" there is no such rule and no checkbox.
	Marker string
	// Checkbox is a text in the line of our comment whose ticked box submits
	// the pull request; "" = any task of the comment.
	Checkbox string
	// CommandPrefixes are the words that begin a long command, "/signalbox"
	// when empty. Short commands (/merge, /cancel) need none.
	CommandPrefixes []string
	// OnEvent is told what became of each request, for metrics; may be nil.
	OnEvent func(Event)
	// Log is where deliveries are noted; nil = nowhere.
	Log *slog.Logger
	// Clock is used for payloads without a time of their own; nil = time.Now.
	Clock func() time.Time
}

// Event is one request as metrics see it. Both fields come from closed sets.
type Event struct {
	Name    string // the host's name of the event, "other" for those we do not use
	Outcome Outcome
}

// Outcome is what became of a request.
type Outcome string

// The outcomes.
const (
	Stored      Outcome = "stored"      // new facts or connections were written
	Duplicate   Outcome = "duplicate"   // the delivery was seen before
	Ignored     Outcome = "ignored"     // an event or an action that we do not use
	Undecodable Outcome = "undecodable" // an event that we use, in a shape that nobody knows; doubts may have been written
	Refused     Outcome = "refused"     // not a delivery: method, signature, size or headers
	Unavailable Outcome = "unavailable" // the store did not answer; the host may deliver again
)

// Outcomes lists every outcome, so that metrics can begin at zero.
var Outcomes = []Outcome{Stored, Duplicate, Ignored, Undecodable, Refused, Unavailable}

// Receiver is the handler of the App's webhook. It is safe for concurrent use.
type Receiver struct {
	secret  []byte
	store   Store
	host    string
	tr      translator
	onEvent func(Event)
	log     *slog.Logger
	clock   func() time.Time
}

// New makes a Receiver. It fails without a secret: an unsigned webhook would
// let anybody merge anything.
func New(cfg Config) (*Receiver, error) {
	var problems []error
	if len(cfg.Secret) == 0 {
		problems = append(problems, errors.New("the webhook secret is empty: set the one that the GitHub App has"))
	}
	if cfg.Store == nil {
		problems = append(problems, errors.New("there is no store"))
	}
	for _, p := range cfg.CommandPrefixes {
		if fields := strings.Fields(p); len(fields) != 1 || fields[0] != p {
			problems = append(problems, fmt.Errorf("command prefix %q is not one word", p))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("make webhook receiver: %w", err)
	}
	if cfg.Host == "" {
		cfg.Host = "github.com"
	}
	if len(cfg.CommandPrefixes) == 0 {
		cfg.CommandPrefixes = []string{DefaultPrefix}
	}
	if cfg.OnEvent == nil {
		cfg.OnEvent = func(Event) {}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	return &Receiver{
		secret: slices.Clone(cfg.Secret), store: cfg.Store, host: cfg.Host,
		tr: translator{
			host: cfg.Host, appID: cfg.AppID, appSlug: cfg.AppSlug, marker: cfg.Marker,
			checkbox: cfg.Checkbox, prefixes: slices.Clone(cfg.CommandPrefixes),
		},
		onEvent: cfg.OnEvent, log: cfg.Log, clock: cfg.Clock,
	}, nil
}

// problem is an answer that is not 202.
type problem struct {
	status  int
	code    string
	message string
}

// ServeHTTP takes one delivery. What it answered 202 is durable, or nothing
// that we could use.
func (rc *Receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := bodies.Get().(*bytes.Buffer)
	defer recycle(body)
	name, payload, p := rc.read(w, r, body)
	if p != nil {
		rc.refuse(w, r, name, Refused, p)
		return
	}
	delivery := r.Header.Get(deliveryHeader)
	outcome, p := rc.receive(r.Context(), name, delivery, payload)
	if p != nil {
		rc.refuse(w, r, name, outcome, p)
		return
	}
	rc.onEvent(Event{Name: metricName(name), Outcome: outcome})
	answer(w, http.StatusAccepted, map[string]string{"outcome": string(outcome)})
}

// read checks that the request is a delivery that the host signed and returns
// its event and JSON, which is in body. Nothing is parsed before the signature is
// verified.
func (rc *Receiver) read(w http.ResponseWriter, r *http.Request, body *bytes.Buffer) (name string, payload []byte, p *problem) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return "", nil, &problem{http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", "Webhooks are sent with POST."}
	}
	mac, ok := parseSignature(r.Header.Get(signatureHeader))
	if !ok {
		return "", nil, &problem{http.StatusUnauthorized, "SIGNATURE_MISSING",
			"The header " + signatureHeader + " is missing or is not a SHA-256 signature. Set a webhook secret in the GitHub App."}
	}
	if p := readBody(w, r, body); p != nil {
		return "", nil, p
	}
	if !signed(body.Bytes(), mac, rc.secret) {
		return "", nil, &problem{http.StatusUnauthorized, "SIGNATURE_WRONG",
			"The signature does not match. The webhook secret of the GitHub App and of this server must be the same."}
	}
	name = r.Header.Get(eventHeader)
	if name == "" {
		return "", nil, &problem{http.StatusBadRequest, "EVENT_MISSING", "The header " + eventHeader + " is missing."}
	}
	if !validDelivery(r.Header.Get(deliveryHeader)) {
		return name, nil, &problem{http.StatusBadRequest, "DELIVERY_ID_MISSING",
			"The header " + deliveryHeader + " is missing or is not an id."}
	}
	payload, p = unwrap(r.Header.Get("Content-Type"), body.Bytes())
	return name, payload, p
}

// bodies are what payloads are read into, one after the other. Nothing that is
// kept of a payload is a part of it: decoding copies.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// recycledBody is the largest body whose memory serves again.
const recycledBody = 64 << 10

func recycle(body *bytes.Buffer) {
	if body.Cap() <= recycledBody {
		body.Reset()
		bodies.Put(body)
	}
}

// readBody reads a payload into a buffer. What a stranger says of its length is
// believed as far as it costs little.
func readBody(w http.ResponseWriter, r *http.Request, body *bytes.Buffer) *problem {
	tooLarge := &problem{http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE",
		fmt.Sprintf("A payload may have at most %d MiB.", maxBody>>20)}
	if r.ContentLength > maxBody {
		return tooLarge
	}
	body.Grow(int(min(max(r.ContentLength, 0), recycledBody-2*bytes.MinRead)) + bytes.MinRead) // ReadFrom wants room at the end
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody))
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return tooLarge
	}
	if err != nil {
		return &problem{http.StatusBadRequest, "BODY_UNREADABLE", "The body ended early. Deliver again."}
	}
	return nil
}

// validDelivery reports whether an id can be kept as a key.
func validDelivery(id string) bool {
	return id != "" && len(id) <= maxDelivery &&
		!strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' })
}

// unwrap takes the JSON out of a form, which is the other content type that a
// hook can be set to. Anything else is JSON.
func unwrap(contentType string, body []byte) ([]byte, *problem) {
	kind, _, _ := mime.ParseMediaType(contentType)
	if kind != "application/x-www-form-urlencoded" {
		return body, nil
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || !form.Has("payload") {
		return nil, &problem{http.StatusBadRequest, "PAYLOAD_MISSING", "The form has no field \"payload\"."}
	}
	return []byte(form.Get("payload")), nil
}

// receive translates a delivery and has it stored.
func (rc *Receiver) receive(ctx context.Context, name, delivery string, payload []byte) (Outcome, *problem) {
	log := rc.log.With("delivery", delivery, "event", metricName(name))
	if !used(name) {
		return Ignored, nil
	}
	var said translation
	outcome := Stored
	if event, err := parse(name, payload); err != nil {
		log.Warn("webhook does not decode; what it is about is read from the host", "err", err)
		said, outcome = doubt(name, payload), Undecodable
	} else if said = rc.tr.translate(event, rc.clock()); said.empty() {
		outcome = Ignored
	}
	if said.empty() {
		return outcome, nil
	}
	// A host that hangs up does not undo what it told us.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	fresh, err := rc.store.Receive(ctx, cmp.Or(said.once, delivery), rc.host, said.repo, said.facts, said.connections)
	if err != nil {
		log.Error("webhook not stored; the host can deliver it again", "err", err)
		return Unavailable, &problem{http.StatusServiceUnavailable, "STORE_UNAVAILABLE",
			"The delivery could not be stored. Deliver it again later."}
	}
	log.Debug("webhook received", "fresh", fresh, "facts", len(said.facts), "connections", len(said.connections))
	if !fresh {
		return Duplicate, nil
	}
	return outcome, nil
}

// parse decodes a payload of an event that we use.
func parse(name string, payload []byte) (event any, err error) {
	switch name {
	case "repository_ruleset": // go-github does not know it
		event = new(rulesetEvent)
		err = decode(payload, event)
	case "check_run":
		event = new(checkRunEvent)
		err = decode(payload, event)
	default:
		event, err = github.ParseWebHook(name, payload)
	}
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", name, err)
	}
	return event, nil
}

// decode reads the fields of a type of ours, in one pass over the payload. As with
// encoding/json, of two fields with one name the last counts, and what is not
// UTF-8 is replaced.
func decode(payload []byte, event any) error {
	return jsonv2.Unmarshal(payload, event, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

func (rc *Receiver) refuse(w http.ResponseWriter, r *http.Request, name string, outcome Outcome, p *problem) {
	rc.onEvent(Event{Name: metricName(name), Outcome: outcome})
	if outcome == Refused {
		rc.log.Warn("webhook refused", "status", p.status, "code", p.code, "from", r.RemoteAddr)
	}
	answer(w, p.status, map[string]any{"error": map[string]string{"code": p.code, "message": p.message}})
}

// answer writes JSON. An error means that the host has gone; there is nobody to tell.
func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
