package githubsim

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// WebhookFaults is what goes wrong with webhooks. The numbers are shares
// between 0 and 1.
type WebhookFaults struct {
	// Lose is the share that is never sent. They are not in the App's list
	// of deliveries either.
	Lose rate `json:"lose"`
	// Repeat is the share that is sent twice, with one delivery id.
	Repeat rate `json:"repeat"`
	// Reorder is the share that is sent a tenth of a second late, so that
	// those that follow overtake it.
	Reorder rate `json:"reorder"`
	// DelayMs is how late all of them are.
	DelayMs int `json:"delayMs"`
	// Seed decides which ones; the same seed, the same ones.
	Seed uint64 `json:"seed"`
}

func (f WebhookFaults) check() error {
	for _, share := range []rate{f.Lose, f.Repeat, f.Reorder} {
		if share < 0 || share > 1 {
			return fmt.Errorf("a share of webhooks must be between 0 and 1, not %v", share)
		}
	}
	if f.DelayMs < 0 {
		return fmt.Errorf("delayMs must not be negative")
	}
	return nil
}

// rate is a share between 0 and 1; in JSON true is 1 and false is 0.
type rate float64

// UnmarshalJSON reads a number or a boolean.
func (r *rate) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case "true":
		*r = 1
	case "false":
		*r = 0
	default:
		return json.Unmarshal(data, (*float64)(r))
	}
	return nil
}

// delivery is one webhook, sent or to be sent. Once it is in the log its
// fields do not change.
type delivery struct {
	id             int64
	guid           string
	event, action  string
	payload        object // until it is encoded
	body           []byte
	installationID int64
	repositoryID   int64
	redelivery     bool
	due            time.Time
	sent           time.Time
	took           time.Duration
	status         string
	code           int
	headers        map[string]string
	response       string
}

// dispatcher sends webhooks in the order of their events and remembers what
// became of them.
type dispatcher struct {
	s      *Server
	client *http.Client

	mu     sync.Mutex
	url    string
	secret string
	hookID int64
	queue  []*delivery
	busy   int
	log    []*delivery // oldest first
	lastID int64
	faults WebhookFaults
	dice   *rand.Rand
	wake   chan struct{}
}

func newDispatcher(s *Server) *dispatcher {
	d := &dispatcher{
		s: s, hookID: 109948940, lastID: 7_000_000, wake: make(chan struct{}, 1),
		client: &http.Client{
			Timeout:       10 * time.Second,
			Transport:     &http.Transport{MaxIdleConnsPerHost: s.cfg.DeliveryWorkers},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	for range s.cfg.DeliveryWorkers {
		s.work.start(d.loop)
	}
	s.work.onStop(d.client.CloseIdleConnections)
	return d
}

func (d *dispatcher) target(url, secret string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.url, d.secret = url, secret
}

// address is where webhooks go.
func (d *dispatcher) address() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.url
}

// SetWebhookFaults says what goes wrong with webhooks from now on; the zero
// value ends it.
func (s *Server) SetWebhookFaults(f WebhookFaults) error {
	if err := f.check(); err != nil {
		return err
	}
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	s.hooks.faults = f
	s.hooks.dice = rand.New(rand.NewPCG(f.Seed, 1))
	return nil
}

// add queues a webhook, or loses, repeats or delays it as the faults say.
func (d *dispatcher) add(v *delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.url == "" {
		return
	}
	f, happens := d.faults, func(share rate) bool { return share > 0 && d.dice.Float64() < float64(share) }
	if f.DelayMs > 0 {
		v.due = time.Now().Add(time.Duration(f.DelayMs) * time.Millisecond)
	}
	if happens(f.Lose) {
		d.s.log.Info("webhook lost", "event", v.event, "action", v.action, "delivery", v.guid)
		return
	}
	if happens(f.Repeat) {
		again := *v
		d.queue = append(d.queue, &again)
	}
	if happens(f.Reorder) {
		v.due = time.Now().Add(time.Duration(f.DelayMs+100) * time.Millisecond)
	}
	d.queue = append(d.queue, v)
	d.signal()
}

func (d *dispatcher) signal() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// take removes the first delivery that is due; else it says how long to wait.
func (d *dispatcher) take() (*delivery, time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	wait, now := time.Hour, time.Now()
	for i, v := range d.queue {
		if late := v.due.Sub(now); late > 0 {
			wait = min(wait, late)
			continue
		}
		if d.queue = slices.Delete(d.queue, i, i+1); len(d.queue) > 0 {
			d.signal() // another worker may take the next
		}
		d.busy++
		return v, 0
	}
	return nil, wait
}

func (d *dispatcher) loop(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		v, wait := d.take()
		if v != nil {
			d.deliver(ctx, v)
			continue
		}
		timer.Reset(wait)
		select {
		case <-d.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// deliver sends one webhook and logs what came back. A failure is final:
// GitHub does not try again by itself.
func (d *dispatcher) deliver(ctx context.Context, v *delivery) {
	if v.body == nil {
		body, err := json.Marshal(v.payload)
		if err != nil {
			d.s.log.Error("encode webhook", "event", v.event, "error", err)
		}
		v.body, v.payload = body, nil
		d.s.cfg.Sent(v.event, body)
	}
	d.mu.Lock()
	url, secret := d.url, d.secret
	d.mu.Unlock()
	v.sent = d.s.cfg.Now().UTC()
	v.headers = d.header(v, secret)
	begin := time.Now()
	v.code, v.status, v.response = d.post(ctx, url, v)
	v.took = time.Since(begin)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy--
	d.lastID++
	v.id = d.lastID
	d.log = append(d.log, v)
	if over := len(d.log) - d.s.cfg.KeepDeliveries; over > d.s.cfg.KeepDeliveries/10 {
		d.log = slices.Clone(d.log[over:])
	}
	d.s.log.Debug("webhook", "event", v.event, "action", v.action, "delivery", v.guid, "code", v.code)
}

func (d *dispatcher) header(v *delivery, secret string) map[string]string {
	h := map[string]string{
		"Content-Type": "application/json", "Accept": "*/*", "User-Agent": "GitHub-Hookshot/5ea7b1e",
		"X-GitHub-Event": v.event, "X-GitHub-Delivery": v.guid, "X-GitHub-Hook-ID": strconv.FormatInt(d.hookID, 10),
		"X-GitHub-Hook-Installation-Target-ID":   strconv.FormatInt(d.s.cfg.AppID, 10),
		"X-GitHub-Hook-Installation-Target-Type": "integration",
	}
	if secret != "" {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(v.body)
		h["X-Hub-Signature-256"] = "sha256=" + hex.EncodeToString(mac.Sum(nil))
	}
	return h
}

func (d *dispatcher) post(ctx context.Context, url string, v *delivery) (code int, status, response string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(v.body))
	if err != nil {
		return 502, "failed to connect to host", err.Error()
	}
	for k, val := range v.headers {
		req.Header.Set(k, val)
	}
	resp, err := d.client.Do(req)
	if err != nil {
		if strings.Contains(err.Error(), "Client.Timeout") {
			return 504, "timed out", ""
		}
		return 502, "failed to connect to host", ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	if resp.StatusCode < 300 {
		return resp.StatusCode, "OK", string(text)
	}
	return resp.StatusCode, "Invalid HTTP Response: " + strconv.Itoa(resp.StatusCode), string(text)
}

// idle reports whether everything was delivered.
func (d *dispatcher) idle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.queue) == 0 && d.busy == 0
}

// emit sends an event about a repository if the App is installed there. mu is
// held; payload must hold nothing that changes later.
func (s *Server) emit(event, action string, r *repo, sender *account, payload object) {
	inst := s.installationOf(r.owner)
	if inst == nil || r.outside {
		return
	}
	payload["repository"] = s.repoJSON(r)
	payload["installation"] = object{"id": inst.id, "node_id": nodeID("MDIzOkludGVncmF0aW9uSW5zdGFsbGF0aW9u", inst.id)}
	s.send(inst, event, action, r, sender, payload)
}

// emitOrg sends an event about an organisation, not one of its repositories,
// if the App is installed there. mu is held.
func (s *Server) emitOrg(event, action string, org, sender *account, payload object) {
	inst := s.installationOf(org)
	if inst == nil {
		return
	}
	payload["installation"] = object{"id": inst.id, "node_id": nodeID("MDIzOkludGVncmF0aW9uSW5zdGFsbGF0aW9u", inst.id)}
	payload["organization"] = s.orgJSON(org)
	s.send(inst, event, action, nil, sender, payload)
}

// emitAbout sends an event about an installation, whose payload has it. mu is
// held.
func (s *Server) emitAbout(inst *installation, event, action string, sender *account, payload object) {
	s.send(inst, event, action, nil, sender, payload)
}

// send queues an event for the App if it subscribes to it. One that is
// suspended hears of its installation only. mu is held.
func (s *Server) send(inst *installation, event, action string, r *repo, sender *account, payload object) {
	ownNews := strings.HasPrefix(event, "installation")
	if !ownNews && (!slices.Contains(s.app.events, event) || !inst.suspended.IsZero()) {
		return
	}
	if action != "" {
		payload["action"] = action
	}
	payload["sender"] = s.userJSON(sender)
	v := &delivery{guid: uuid.NewString(), event: event, action: action, payload: payload, installationID: inst.id}
	if r != nil {
		v.repositoryID = r.id
		if r.owner.kind == "Organization" {
			payload["organization"] = s.orgJSON(r.owner)
		}
	}
	s.hooks.add(v)
}

// emitPing sends the event by which GitHub tries a webhook. mu is held.
func (s *Server) emitPing() {
	s.hooks.add(&delivery{guid: uuid.NewString(), event: "ping", payload: object{
		"zen": "Keep it logically awesome.", "hook_id": s.hooks.hookID, "hook": object{
			"url": s.api("/app/hook"), "ping_url": s.api("/app/hook/pings"), "type": "App", "id": s.hooks.hookID, "name": "web", "active": true, "events": s.app.events, "app_id": s.app.id,
			"config":     object{"content_type": "json", "insecure_ssl": "0", "secret": "********", "url": s.hooks.address()},
			"updated_at": when(s.now()), "created_at": when(s.now()), "deliveries_url": s.api("/app/hook/deliveries"),
		},
	}})
}

// installationID is the number of an installation, 0 for none.
func installationID(i *installation) int64 {
	if i == nil {
		return 0
	}
	return i.id
}

// installationOf is the App's installation on an account. mu is held.
func (s *Server) installationOf(owner *account) *installation {
	for _, i := range s.installations {
		if i.owner == owner {
			return i
		}
	}
	return nil
}
