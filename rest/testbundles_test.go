package rest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/flaky"
	"signalbox/queue"
)

// noTests is a TestStore in which everything fails that a CI job needs.
type noTests struct{ TestStore }

var errNoTests = errors.New("pq: out of shared memory")

func (noTests) QuarantineOn(context.Context, queue.RepoID) (bool, error) { return false, errNoTests }

func (noTests) AddBundle(context.Context, uuid.UUID, flaky.Upload, [32]byte, []byte) (int64, bool, error) {
	return 0, false, errNoTests
}

// What fails on our side is 503 for a CI job, which would take other answers for
// a reason to fail, and the cause is for the log alone.
func TestOurTroubleFailsNoJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	runCommands(w)
	got := w.send(w.requestFor(route{method: http.MethodPost, path: "/v1/metrics/createBundleUpload"}, "submit", `{@main,"orgUrlSlug":"acme"}`))
	var where bundleUpload
	if err := json.Unmarshal(got.Body.Bytes(), &where); err != nil || got.Code != 200 {
		t.Fatalf("%d %s", got.Code, got.Body)
	}
	w.api.tests = noTests{w.api.tests}
	put := httptest.NewRequest(http.MethodPut, strings.TrimPrefix(where.URL, "https://signalbox.example"), strings.NewReader("x"))
	ask := w.requestFor(route{method: http.MethodPost, path: "/v1/metrics/getQuarantineConfig"}, "submit", `{@main,"orgUrlSlug":"acme"}`)
	for _, r := range []*http.Request{put, ask} {
		got := w.send(r)
		if got.Code != 503 || got.Header().Get("Retry-After") == "" || strings.Contains(got.Body.String(), "shared memory") {
			t.Errorf("%s: %d %s", r.URL.Path, got.Code, got.Body)
		}
	}
	if !strings.Contains(w.log.String(), "out of shared memory") {
		t.Error("the log does not say why")
	}
	if strings.Contains(w.log.String(), "ticket=") {
		t.Error("the log has an address, which is a secret")
	}
}

// unread is a body that nobody may read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body is read")
	return 0, errors.New("read")
}

// A body is read only of who may send one.
func TestNobodysBodyIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for path, want := range map[string]int{bundlePath + "?ticket=x": 403, "/v1/flakytests-cli/upload-metrics": 200} {
		r := httptest.NewRequest(http.MethodPut, path, unread{t})
		if want == 200 {
			r.Method = http.MethodPost
		}
		if got := w.send(r); got.Code != want {
			t.Errorf("%s: %d %s", path, got.Code, got.Body)
		}
	}
}

// An address that was changed in any place is not ours any more.
func TestAddressesCannotBeChanged(t *testing.T) {
	t.Parallel()
	ticket := bundleTicket{ID: uuid.New(), Repo: 7, Until: time.Now().Unix()}
	signed := ticket.sign([]byte("key"))
	if got, ok := readTicket([]byte("key"), signed); !ok || got != ticket {
		t.Errorf("%+v %v", got, ok)
	}
	for i := range signed {
		other := "A"
		if signed[i] == 'A' {
			other = "B"
		}
		if _, ok := readTicket([]byte("key"), signed[:i]+other+signed[i+1:]); ok {
			t.Errorf("with another character at %d it is taken", i)
		}
	}
	if _, ok := readTicket([]byte("another key"), signed); ok {
		t.Error("with another key it is taken")
	}
}

// Strangers are held to a rate.
func TestStrangersAreHeldToARate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	last := 0
	for range forksBurst + 1 {
		r := w.requestFor(route{method: http.MethodPost, path: "/v1/metrics/createBundleUpload"}, "", `{@main,"orgUrlSlug":"acme"}`)
		r.Header.Set(headerPublicRepo, "a1b2c3d4")
		last = w.send(r).Code
	}
	if last != 429 {
		t.Errorf("after %d requests at once: %d", forksBurst+1, last)
	}
}

func TestWhatIsMended(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"{\"a\":\"x\xffy\"}":                 `{"a":"x` + "\uFFFD" + `y"}`,
		"{\"a\":\"x\x00y\"}":                 `{"a":"x` + "\uFFFD" + `y"}`,
		`{"a":"\u0000\\u0000\n\u00e4"}`:      `{"a":"\ufffd\\u0000\n\u00e4"}`,
		`{"a":"\ud83d\ude00 \ud83d \ude00"}`: `{"a":"\ud83d\ude00 \ufffd \ufffd"}`,
		`{"a":"\ud83d"}`:                     `{"a":"\ufffd"}`,
		`{"a":"\u`:                           `{"a":"\u`,
		`\`:                                  `\`,
	} {
		got := string(mend([]byte(body)))
		if got != want {
			t.Errorf("%q becomes %q, want %q", body, got, want)
		}
		if json.Valid([]byte(got)) {
			if _, err := parse([]byte(got)); err != nil {
				t.Errorf("%q is not taken: %v", got, err)
			}
		}
	}
}

// Whatever a client asks, the answer is one that the contract has.
func FuzzGetQuarantineConfig(f *testing.F) {
	const path = "/v1/metrics/getQuarantineConfig"
	f.Add([]byte(`{"repo":{"host":"github.com","owner":"acme","name":"app"},"orgUrlSlug":"acme","testIdentifiers":[{"id":"f8aeaf62-c47d-54aa-9855-d1e1b2c57f5b","failure_message":"\u0000\ud800"}]}`))
	f.Add([]byte("{\"repo\":\x00\xff\\u"))
	f.Fuzz(func(t *testing.T, body []byte) {
		w := newWorld(t, nil)
		runCommands(w)
		r := httptest.NewRequest("POST", path, strings.NewReader(string(body)))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Api-Token", "submit")
		if got := w.send(r); got.Code != 200 && got.Code != 400 && got.Code != 404 || !json.Valid(got.Body.Bytes()) {
			t.Errorf("%q: %d %s", body, got.Code, got.Body)
		}
	})
}
