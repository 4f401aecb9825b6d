package webhook

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/account"
	"signalbox/queue"
)

// memory is a Store that keeps what it receives, once for each delivery id,
// as the real one does; down makes it fail.
type memory struct {
	mu          sync.Mutex
	down        error
	seen        map[string]bool
	facts       []queue.Fact
	connections []account.Connection
	host        string
	repo        int64
}

func (m *memory) Receive(ctx context.Context, delivery, host string, repo int64, facts []queue.Fact, connections []account.Connection) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if m.down != nil {
		return false, m.down
	}
	if m.seen[delivery] {
		return false, nil
	}
	if m.seen == nil {
		m.seen = map[string]bool{}
	}
	m.seen[delivery], m.host, m.repo = true, host, repo
	m.facts = append(m.facts, facts...)
	m.connections = append(m.connections, connections...)
	return true, nil
}

var testSecret = []byte("a secret of the tests")

// receiver makes a Receiver on store; events collects what metrics would see.
func receiver(t testing.TB, store Store) (rc *Receiver, events func() []Event) {
	t.Helper()
	var mu sync.Mutex
	var all []Event
	rc, err := New(Config{
		Secret: testSecret, Store: store, AppID: 1234, AppSlug: "signalbox",
		Marker: testTranslator.marker, Checkbox: testTranslator.checkbox,
		OnEvent: func(e Event) { mu.Lock(); all = append(all, e); mu.Unlock() },
	})
	if err != nil {
		t.Fatal(err)
	}
	return rc, func() []Event { mu.Lock(); defer mu.Unlock(); return all }
}

// deliver makes a request as the host would.
func deliver(event, id, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/webhook", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(eventHeader, event)
	r.Header.Set(deliveryHeader, id)
	r.Header.Set(signatureHeader, signaturePrefix+hex.EncodeToString(sign([]byte(body), testSecret)))
	return r
}

const merge12 = `{"action":"created","issue":{"number":12,"pull_request":{}},"comment":{"id":1,"body":"/merge"},
	"sender":{"login":"ada","id":1},"repository":{"id":4711}}`

func TestEveryAnswer(t *testing.T) {
	t.Parallel()
	big := strings.Repeat(" ", maxBody+1)
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	tests := []struct {
		name    string
		event   string
		body    string
		change  func(*http.Request)
		down    error
		status  int
		code    string
		outcome Outcome
	}{
		{name: "a command is stored", event: "issue_comment", body: merge12, status: 202, outcome: Stored},
		{name: "ping", event: "ping", body: `{"zen":"x"}`, status: 202, outcome: Ignored},
		{name: "an event that nobody knows", event: "from_the_future", body: `{}`, status: 202, outcome: Ignored},
		{name: "an event that we do not use, malformed", event: "star", body: `{`, status: 202, outcome: Ignored},
		{name: "an action that we do not use", event: "pull_request", body: `{"action":"assigned","repository":{"id":1}}`, status: 202, outcome: Ignored},
		{name: "a known event that does not decode", event: "pull_request", body: `{"action":7}`, status: 202, outcome: Undecodable},
		{name: "a check that nests without end", event: "check_run", body: `{"check_run":` + strings.Repeat("[", 1<<20), status: 202, outcome: Undecodable},
		{name: "a check that ends in the middle", event: "check_run", body: `{"action":"completed"`, status: 202, outcome: Undecodable},
		{name: "no JSON at all", event: "push", body: `hello`, status: 202, outcome: Undecodable},
		{name: "a ruleset that does not decode", event: "repository_ruleset", body: `{"action":[]}`, status: 202, outcome: Undecodable},
		{name: "facts of no repository", event: "push", body: `{"ref":"refs/heads/main","after":"` + strings.Repeat("a", 40) + `"}`, status: 202, outcome: Ignored},
		{name: "no signature", event: "ping", change: func(r *http.Request) { r.Header.Del(signatureHeader) }, status: 401, code: "SIGNATURE_MISSING"},
		{name: "a signature of the old kind", event: "ping", change: header(signatureHeader, "sha1="+strings.Repeat("0", 40)), status: 401, code: "SIGNATURE_MISSING"},
		{name: "a signature that is too short", event: "ping", change: header(signatureHeader, "sha256=00"), status: 401, code: "SIGNATURE_MISSING"},
		{name: "a signature that is not hex", event: "ping", change: header(signatureHeader, "sha256="+strings.Repeat("x", 64)), status: 401, code: "SIGNATURE_MISSING"},
		{name: "a wrong signature", event: "ping", change: header(signatureHeader, "sha256="+strings.Repeat("0", 64)), status: 401, code: "SIGNATURE_WRONG"},
		{name: "too large, as it says", event: "ping", body: big, status: 413, code: "PAYLOAD_TOO_LARGE"},
		{name: "too large, without saying so", event: "ping", body: big, change: func(r *http.Request) { r.ContentLength = -1 }, status: 413, code: "PAYLOAD_TOO_LARGE"},
		{name: "GET", change: func(r *http.Request) { r.Method = http.MethodGet }, status: 405, code: "METHOD_NOT_ALLOWED"},
		{name: "no delivery id", event: "ping", change: func(r *http.Request) { r.Header.Del(deliveryHeader) }, status: 400, code: "DELIVERY_ID_MISSING"},
		{name: "a delivery id that is none", event: "ping", change: header(deliveryHeader, "a\tb"), status: 400, code: "DELIVERY_ID_MISSING"},
		{name: "no event", status: 400, code: "EVENT_MISSING"},
		{name: "a form without a payload", event: "ping", body: "x=1", change: header("Content-Type", "application/x-www-form-urlencoded"), status: 400, code: "PAYLOAD_MISSING"},
		{name: "a store that is down", event: "issue_comment", body: merge12, down: errors.New("connection refused"), status: 503, code: "STORE_UNAVAILABLE", outcome: Unavailable},
		{name: "a store that is down and not needed", event: "ping", down: errors.New("connection refused"), status: 202, outcome: Ignored},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rc, events := receiver(t, &memory{down: tt.down})
			r := deliver(tt.event, "id-1", tt.body)
			if tt.event == "" {
				r.Header.Del(eventHeader)
			}
			if tt.change != nil {
				tt.change(r)
			}
			w := httptest.NewRecorder()
			rc.ServeHTTP(w, r)
			if w.Code != tt.status {
				t.Errorf("status %d, want %d: %s", w.Code, tt.status, w.Body)
			}
			var got struct {
				Error struct{ Code, Message string }
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Errorf("the answer is not JSON: %v", err)
			}
			if got.Error.Code != tt.code || (tt.code != "" && got.Error.Message == "") {
				t.Errorf("error %+v, want code %q and a message", got.Error, tt.code)
			}
			want := tt.outcome
			if want == "" {
				want = Refused
			}
			if all := events(); len(all) != 1 || all[0].Outcome != want {
				t.Errorf("metrics saw %+v, want one %s", all, want)
			}
		})
	}
}

func TestADeliverySeenBeforeChangesNothing(t *testing.T) {
	t.Parallel()
	store := &memory{}
	rc, events := receiver(t, store)
	for range 2 {
		w := httptest.NewRecorder()
		rc.ServeHTTP(w, deliver("issue_comment", "id-1", merge12))
		if w.Code != http.StatusAccepted {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
	}
	if len(store.facts) != 1 || store.host != "github.com" || store.repo != 4711 {
		t.Errorf("the store has %+v of %s %d", store.facts, store.host, store.repo)
	}
	if got := fmt.Sprint(events()); got != "[{issue_comment stored} {issue_comment duplicate}]" {
		t.Errorf("metrics saw %s", got)
	}
}

func TestAPayloadThatDoesNotDecodeRaisesADoubt(t *testing.T) {
	t.Parallel()
	sha := strings.Repeat("a", 40)
	tests := []struct {
		name, event, body string
		want              []queue.Fact
	}{
		{"a date without a zone", "check_run", `{"action":"completed","check_run":{"id":1,"head_sha":"` + sha + `",
			"started_at":"2018-04-25 20:42:10"},"repository":{"id":4711}}`, []queue.Fact{queue.ChecksDoubted{Commit: sha}}},
		{"a status whose number is text", "status", `{"id":"1","sha":"` + sha + `","repository":{"id":4711}}`, []queue.Fact{queue.ChecksDoubted{Commit: sha}}},
		{"a pull request whose number is text", "pull_request", `{"pull_request":{"number":"12"},"repository":{"id":"4711"}}`, []queue.Fact{queue.PullRequestDoubted{PR: 12}}},
		{"a rule of another type", "repository_ruleset", `{"action":1,"repository":{"id":4711}}`, []queue.Fact{queue.RulesChanged{}}},
		{"a command is not guessed", "issue_comment", `{"action":1,"issue":{"number":12},"repository":{"id":4711}}`, nil},
		{"a commit that is none", "status", `{"id":"1","sha":"--all","repository":{"id":4711}}`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := &memory{}
			rc, events := receiver(t, store)
			w := httptest.NewRecorder()
			rc.ServeHTTP(w, deliver(tt.event, "id-1", tt.body))
			if w.Code != http.StatusAccepted || events()[0].Outcome != Undecodable {
				t.Errorf("status %d, metrics %v", w.Code, events())
			}
			if diff := cmp.Diff(tt.want, store.facts); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFormCarriesTheSamePayload(t *testing.T) {
	t.Parallel()
	store := &memory{}
	rc, _ := receiver(t, store)
	r := deliver("issue_comment", "id-1", url.Values{"payload": {merge12}}.Encode())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	w := httptest.NewRecorder()
	rc.ServeHTTP(w, r)
	if w.Code != http.StatusAccepted || len(store.facts) != 1 {
		t.Errorf("status %d, facts %+v: %s", w.Code, store.facts, w.Body)
	}
}

func TestAHostThatHangsUpDoesNotUndoItsDelivery(t *testing.T) {
	t.Parallel()
	store := &memory{}
	rc, _ := receiver(t, store)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rc.ServeHTTP(httptest.NewRecorder(), deliver("issue_comment", "id-1", merge12).WithContext(ctx))
	if len(store.facts) != 1 {
		t.Errorf("the store has %+v", store.facts)
	}
}

func TestNamesInMetricsComeFromAClosedSet(t *testing.T) {
	t.Parallel()
	rc, events := receiver(t, &memory{})
	rc.ServeHTTP(httptest.NewRecorder(), deliver("x_made_up", "id-1", `{}`))
	if got := events(); len(got) != 1 || got[0].Name != "other" {
		t.Errorf("metrics saw %+v", got)
	}
}

// Signatures of GitHub's own documentation: secret "It's a Secret to
// Everybody", payload "Hello, World!".
func TestTheSignatureIsGitHubs(t *testing.T) {
	t.Parallel()
	mac, ok := parseSignature("sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
	if !ok || !signed([]byte("Hello, World!"), mac, []byte("It's a Secret to Everybody")) {
		t.Error("GitHub's example is not accepted")
	}
	if signed([]byte("Hello, World?"), mac, []byte("It's a Secret to Everybody")) {
		t.Error("another body is accepted")
	}
}

func TestWhatAReceiverCannotBeMadeOf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		cfg  Config
		want string
	}{
		{"no secret", Config{Store: &memory{}}, "the webhook secret is empty"},
		{"no store", Config{Secret: testSecret}, "there is no store"},
		{"a prefix of two words", Config{Secret: testSecret, Store: &memory{}, CommandPrefixes: []string{"/a b"}}, `command prefix "/a b" is not one word`},
		{"an empty prefix", Config{Secret: testSecret, Store: &memory{}, CommandPrefixes: []string{""}}, `command prefix "" is not one word`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := New(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// The memory that a payload was read into serves the next one. What was kept of
// the first is not changed by that.
func TestPayloadsDoNotRunIntoEachOther(t *testing.T) {
	t.Parallel()
	store := &memory{}
	rc, _ := receiver(t, store)
	const checks = 200
	want := map[string]int64{}
	var all sync.WaitGroup
	for i := range int64(checks) {
		name := fmt.Sprintf("check %d%s", i, strings.Repeat(" x", int(i*37%200)))
		want[name] = i + 1
		body := fmt.Sprintf(`{"action":"created","check_run":{"id":%d,"name":%q,"head_sha":%q,"output":{"text":%q}},"repository":{"id":4711}}`,
			i+1, name, strings.Repeat("a", 40), strings.Repeat("y", int(i*1009%9000)))
		all.Go(func() {
			w := httptest.NewRecorder()
			rc.ServeHTTP(w, deliver("check_run", fmt.Sprint("delivery", i), body))
			if w.Code != http.StatusAccepted {
				t.Errorf("check %d: %d %s", i, w.Code, w.Body)
			}
		})
	}
	all.Wait()
	got := map[string]int64{}
	for _, fact := range store.facts {
		report := fact.(queue.CheckReported)
		got[report.Name] = report.ID
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("checks and their numbers (-want +got):\n%s", diff)
	}
}

// What is not UTF-8 is replaced, and of two fields with one name the last counts,
// as with every other event.
func TestAnOddPayloadOfACheckIsStillUnderstood(t *testing.T) {
	t.Parallel()
	store := &memory{}
	rc, _ := receiver(t, store)
	w := httptest.NewRecorder()
	rc.ServeHTTP(w, deliver("check_run", "odd", `{"action":"created","check_run":{"id":1,"id":2,"name":"un`+"\xff"+`it","head_sha":"`+strings.Repeat("a", 40)+`"},"repository":{"id":4711}}`))
	want := []queue.Fact{queue.CheckReported{Commit: strings.Repeat("a", 40), Report: queue.Report{Kind: queue.CheckRun, Name: "un\uFFFDit", ID: 2}}}
	if diff := cmp.Diff(want, store.facts); diff != "" || w.Code != http.StatusAccepted {
		t.Errorf("status %d, facts (-want +got):\n%s", w.Code, diff)
	}
}
