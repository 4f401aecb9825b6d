package web

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/queue"
)

// An open page hears of a change, and of one that it missed while it was
// loaded; it hears nothing of what it has seen.

// listener reads the events of a stream.
type listener struct {
	t      *testing.T
	events chan string // "changed 7"; closed at the end
	err    error       // why it ended, once events is closed; nil = the server ended it
	status int
	header http.Header
}

// listensFor bounds a test that hangs, so that it says where. It is no demand: the
// machine may be slow, and busy.
const listensFor = 10 * time.Minute

func listen(t *testing.T, url string) *listener {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), listensFor)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{t: t, events: make(chan string, 10), status: answer.StatusCode, header: answer.Header}
	go func() {
		defer answer.Body.Close()
		defer close(l.events)
		lines := bufio.NewScanner(answer.Body)
		name := ""
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = text
			}
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				l.events <- name + " " + text
			}
		}
		l.err = lines.Err()
	}()
	return l
}

func (l *listener) hears(want string) {
	l.t.Helper()
	select {
	case got := <-l.events:
		if got != want {
			l.t.Errorf("heard %q, want %q", got, want)
		}
	case <-time.After(listensFor):
		l.t.Fatalf("heard nothing, want %q", want)
	}
}

// follow serves a world and tells its readers of changes until the test ends.
func follow(t *testing.T, w *world) (h *Handler, address string) {
	t.Helper()
	h = handler(t, w)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- h.Run(ctx) }()
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return h, server.URL
}

func TestAnOpenPageHearsOfChanges(t *testing.T) {
	t.Parallel()
	w := newWorld()
	_, address := follow(t, w)
	const page = "/q/github.com/acme/app/live?branch=release/1.2"
	if loaded := get(t, handler(t, w), everyPage["queue"]).Body.String(); !strings.Contains(loaded, `data-stream="/q/github.com/acme/app/live?branch=release%2F1.2" data-seen="4"`) {
		t.Error("the page does not say where its news is, or what it has seen")
	}
	upToDate := listen(t, address+page+"&seen=4")
	late := listen(t, address+page+"&seen=3")
	all := listen(t, address+"/live?seen=9")
	other := listen(t, address+"/q/github.com/acme/app/live?branch=main&seen=5")
	late.hears("changed 4")
	w.turn.Store(7)
	w.wake <- queue.QueueChanged
	upToDate.hears("changed 7")
	late.hears("changed 7")
	all.hears("changed 10") // the newest, and how many queues there are
	if len(other.events) > 0 {
		t.Errorf("the page of another queue heard %q", <-other.events)
	}
	if kind := late.header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("content type %q", kind)
	}
}

func TestStreamsEndWithTheProgram(t *testing.T) {
	t.Parallel()
	w := newWorld()
	h, address := follow(t, w)
	open := listen(t, address+"/live?seen=9")
	h.EndStreams()
	if event, more := <-open.events; more || open.err != nil {
		t.Errorf("heard %q, want the end: %v", event, open.err)
	}
	if late := listen(t, address+"/live"); late.status != http.StatusServiceUnavailable {
		t.Errorf("a page that comes after the end gets status %d", late.status)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	l := newLive(newWorld(), nil)
	for range streamsAtMost {
		if _, err := l.join(1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.join(1); !errors.Is(err, errTooMany) {
		t.Errorf("one too many: %v", err)
	}
	for s := range l.open {
		l.leave(s)
		break
	}
	if _, err := l.join(queue.ID(1)); err != nil {
		t.Errorf("after one has left: %v", err)
	}
}

// Readers come and go while others are told: nobody waits for who has left.
func TestReadersLeaveWhileOthersAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld()
	h := handler(t, w)
	done, told := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		for {
			select {
			case <-done:
				return
			default:
				if err := h.live.tell(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	left, leave := context.WithCancel(t.Context())
	leave()
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for range 1000 {
				r := httptest.NewRequestWithContext(left, http.MethodGet, "/live", nil)
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
	readers.Wait()
	close(done)
	<-told
}
