package db_test

import (
	"errors"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"signalbox/db"
	"signalbox/queue"
)

// wire stands between a DB and its Postgres, and can be cut.
type wire struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
	cutIt bool
}

// newWire listens for what dsn addresses, and returns the DSN to use instead.
func newWire(t *testing.T, dsn string) (*wire, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	network, address := "tcp", u.Host
	q := u.Query()
	if dir := q.Get("host"); dir != "" {
		network, address = "unix", filepath.Join(dir, ".s.PGSQL."+q.Get("port"))
		q.Del("host")
		q.Del("port")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: l}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial(network, address)
			if err != nil {
				in.Close()
				continue
			}
			w.join(in, out)
		}
	}()
	t.Cleanup(w.cut)
	u.Host, u.RawQuery = l.Addr().String(), q.Encode()
	return w, u.String()
}

func (w *wire) join(in, out net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, in, out)
	if w.cutIt {
		in.Close()
		out.Close()
		return
	}
	go func() { io.Copy(in, out); in.Close() }()
	go func() { io.Copy(out, in); out.Close() }()
}

func (w *wire) cut() {
	w.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cutIt = true
	for _, c := range w.conns {
		c.Close()
	}
}

func TestAnUnreachableDatabaseSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wire, dsn := newWire(t, w.dsn)
	far, err := db.Open(t.Context(), db.Config{DSN: dsn})
	w.must(err)
	defer far.Close()
	w.must(far.Ready(t.Context()))
	wire.cut()
	for name, call := range map[string]func() error{
		"Open": func() error { _, err := db.Open(t.Context(), db.Config{DSN: dsn}); return err },
		"Receive": func() error {
			_, err := far.Receive(t.Context(), "d", host, hostID, []queue.Fact{queue.RulesChanged{}}, nil)
			return err
		},
		"Append": func() error { return far.Append(t.Context(), w.repo.ID, 0, queue.RulesChanged{}) },
		"Route":  func() error { return far.Route(t.Context(), epoch) },
		"Token":  func() error { _, err := far.Token(t.Context(), [32]byte{}, epoch); return err },
		"Read":   func() error { _, err := far.Read(t.Context(), w.queue.ID); return err },
		"Ready":  func() error { return far.Ready(t.Context()) },
	} {
		if err := call(); !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := db.Open(t.Context(), db.Config{DSN: "postgres://%zz"}); err == nil || errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("a DSN that makes no sense: %v", err)
	}
}
