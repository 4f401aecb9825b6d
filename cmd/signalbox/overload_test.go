//go:build linux

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/gitprovider/githubsim"
)

var overload = flag.Bool("overload", false, "overload a server as hard as docs/reliability.md says, not only a little; see make overload")

// mostMemory is what a server may take, however it is treated.
const mostMemory = 700 << 20

// TestOverload treats a server badly, all at once: a burst of webhooks, clients
// that each upload 20 MiB of targets, half of them names of nobody that send
// webhooks of that size, connections that send their request a byte at a time,
// and a queue in which 10,000 wait. All the time the server says that it lives, its
// memory stays bounded, every webhook that it took is there, and afterwards a pull
// request lands.
func TestOverload(t *testing.T) {
	t.Parallel()
	webhooks, clients, slow := 1000, 6, 100
	if *overload {
		webhooks, clients, slow = 10_000, 50, 1000
	} else if testing.Short() {
		t.Skip("takes half a minute")
	}
	o := newOverloaded(t)
	o.queueOf(10_000)
	o.land(1)
	began := time.Now()
	var all sync.WaitGroup
	stop := make(chan struct{})
	all.Go(func() { o.slowLoris(slow, stop) })
	var load sync.WaitGroup
	load.Go(func() { o.burst(webhooks) })
	load.Go(func() { o.large(clients) })
	watched := make(chan struct{})
	go func() { defer close(watched); o.lives(stop) }()
	load.Wait()
	loaded := time.Since(began)
	close(stop)
	<-watched
	all.Wait()

	var kept int64
	if err := o.store.SQL().QueryRowContext(o.ctx, `SELECT count(*) FROM deliveries WHERE id LIKE 'burst-%'`).Scan(&kept); err != nil {
		t.Fatal(err)
	}
	// More may be there: whoever was told that storing took too long is told so before
	// anybody knows whether it is stored.
	if taken := o.taken.Load(); kept < taken || taken == 0 {
		t.Errorf("%d webhooks were taken, and %d are there", taken, kept)
	}
	began = time.Now()
	o.land(2)
	memory := o.memory("VmHWM")
	if memory == 0 || memory > mostMemory {
		t.Errorf("the server took %d MiB at its most, more than %d", memory>>20, mostMemory>>20)
	}
	t.Logf("%d webhooks (%d taken at once, slowest %s), %d clients with 20 MiB (%d taken, %d told to come again), %d slow connections, 10,000 in a queue: loaded for %s; "+
		"health answered %d times, at the slowest in %s; %d MiB at most; a pull request landed %s afterwards",
		webhooks, o.taken.Load(), time.Duration(o.slowest.Load()).Round(time.Millisecond), clients, o.uploaded.Load(), o.told.Load(), slow, loaded.Round(100*time.Millisecond),
		o.healthy.Load(), time.Duration(o.health.Load()).Round(time.Millisecond), memory>>20, time.Since(began).Round(100*time.Millisecond))
	o.child.end(t)
}

// overloaded is a server that is treated badly.
type overloaded struct {
	*served
	t       *testing.T
	ctx     context.Context
	sample  sample
	taken   atomic.Int64
	slowest atomic.Int64
	told    atomic.Int64

	uploaded, healthy, health atomic.Int64
}

func newOverloaded(t *testing.T) *overloaded {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	o := &overloaded{t: t, ctx: ctx}
	o.served = newServed(ctx, t, githubsim.Config{DataDir: t.TempDir(), Sent: o.sample.sent}, "SIGNALBOX_LOG_LEVEL=warn", "SIGNALBOX_API_RATE=0")
	if err := o.prepare(ctx, githubsim.CI{MinSeconds: 0.1, MaxSeconds: 0.2}); err != nil {
		t.Fatal(err)
	}
	return o
}

// land opens a pull request and waits until it has landed.
func (o *overloaded) land(number int) {
	o.t.Helper()
	opened, err := openChange(o.ctx, o.sim, o.repo(), number)
	if err == nil {
		_, err = o.sim.Comment(o.repo(), opened.Number, "alice", "/merge")
	}
	if err == nil {
		err = persist(o.ctx, func() error {
			p, err := o.client.Pull(o.ctx, "getSubmittedPullRequest", opened.Number)
			if err == nil && p.State != "merged" {
				err = errNotYet
			}
			return err
		})
	}
	if err != nil {
		o.t.Fatalf("#%d does not land: %v\n%s", number, err, o.child.tail())
	}
}

// queueOf makes a queue in which so many wait, of a repository that the App is
// not installed on.
func (o *overloaded) queueOf(n int) {
	o.t.Helper()
	huge := newClient(o.where(), o.token, "huge")
	if err := huge.Call(o.ctx, "createQueue", map[string]any{"state": "paused"}, nil); err != nil {
		o.t.Fatal(err)
	}
	o.land(0) // a row to copy
	_, err := o.store.SQL().ExecContext(o.ctx, copyEntry(1, `'queue_id', (SELECT max(id) FROM queues), 'state', 'pending', 'reason', 'NOW_READY'`), n, -1)
	demand(o.t)(err)
}

// burst sends webhooks as fast as they are taken, each about a check of ours.
func (o *overloaded) burst(n int) {
	if o.sample.Load() == nil {
		o.t.Error("CI has sent no webhook to repeat")
		return
	}
	body := *o.sample.Load()
	var all sync.WaitGroup
	left := make(chan int, n)
	for i := range n {
		left <- i
	}
	close(left)
	for range 128 {
		all.Go(func() {
			line := hookLine{address: o.child.address()}
			defer line.close()
			for range left {
				began := time.Now()
				status, err := line.send("burst-"+uuid.NewString(), body)
				if err != nil {
					o.t.Errorf("a webhook: %v", err)
					return
				}
				if status == http.StatusAccepted {
					o.taken.Add(1)
				}
				if took := int64(time.Since(began)); took > o.slowest.Load() {
					o.slowest.Store(took)
				}
			}
		})
	}
	all.Wait()
}

// large has clients send 20 MiB each: every other one targets, and the rest
// webhooks that nobody signed.
func (o *overloaded) large(clients int) {
	var targets bytes.Buffer
	fmt.Fprintf(&targets, `{"repo":{"host":%q,"owner":%q,"name":%q},"pr":{"number":1,"sha":"0123456789012345678901234567890123456789"},"targetBranch":"main","impactedTargets":["x"`, demoHost, demoOrg, demoRepo)
	for i := 0; targets.Len() < 20<<20-100; i++ {
		fmt.Fprintf(&targets, `,"//some/package/with/a/name:target_%d"`, i)
	}
	targets.WriteString("]}")
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			path := "/v1/setImpactedTargets"
			if i%2 == 1 {
				path = "/webhook"
			}
			r, err := http.NewRequestWithContext(o.ctx, http.MethodPost, o.child.url+path, bytes.NewReader(targets.Bytes()))
			if err != nil {
				o.t.Error(err)
				return
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("X-Api-Token", o.token)
			r.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64))
			resp, err := http.DefaultClient.Do(r)
			if err != nil { // it was told to come again before it had sent everything
				o.told.Add(1)
				return
			}
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			switch {
			case resp.StatusCode == http.StatusOK:
				o.uploaded.Add(1)
			case resp.StatusCode == http.StatusServiceUnavailable:
				o.told.Add(1)
			case path == "/webhook" && resp.StatusCode == http.StatusUnauthorized:
			default:
				o.t.Errorf("%s with 20 MiB: status %d %s", path, resp.StatusCode, text)
			}
		})
	}
	all.Wait()
}

// slowLoris opens connections and sends a byte on each now and then, until stop.
func (o *overloaded) slowLoris(n int, stop chan struct{}) {
	var conns []net.Conn
	for range n {
		if c, err := net.Dial("tcp", o.child.address()); err == nil {
			conns = append(conns, c)
			_, _ = io.WriteString(c, "POST /webhook HTTP/1.1\r\nX-Slow: ") // it may hang up
		}
	}
	for {
		select {
		case <-stop:
			for _, c := range conns {
				c.Close()
			}
			return
		case <-time.After(time.Second):
			for _, c := range conns {
				_, _ = io.WriteString(c, "x")
			}
		}
	}
}

// lives asks the server all the time whether it lives.
func (o *overloaded) lives(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(100 * time.Millisecond): // the pace of the questions
		}
		began := time.Now()
		r, _ := http.NewRequestWithContext(o.ctx, http.MethodGet, o.child.url+"/healthz", nil)
		resp, err := http.DefaultClient.Do(r)
		if err != nil || resp.StatusCode != http.StatusOK {
			o.t.Errorf("the server does not say that it lives: %v", err)
		}
		if err == nil {
			resp.Body.Close()
		}
		o.healthy.Add(1)
		o.health.Store(max(o.health.Load(), int64(time.Since(began))))
	}
}

// memory is what the server takes, in bytes: VmHWM is the most so far, VmRSS
// now.
func (s *served) memory(which string) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.child.cmd.Process.Pid))
	if err != nil {
		return 0 // it has ended, which is found out elsewhere
	}
	_, rest, _ := strings.Cut(string(status), which+":")
	var kib int64
	fmt.Sscan(rest, &kib) // one that has ended and was not waited for has none
	return kib << 10
}
