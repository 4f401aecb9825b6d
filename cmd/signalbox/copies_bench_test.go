//go:build linux

package main

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"signalbox/api"
	"signalbox/benchtest"
	"signalbox/db/dbtest"
	"signalbox/gitprovider/githubsim"
)

// copiesDone is what so many copies of the server did.
type copiesDone struct {
	webhooks, landed             float64 // a second
	webhookServer, webhookPG     float64 // processor ms of one webhook
	landedServer, landedPG, host float64 // of one that landed; host is the simulated GitHub
}

// BenchmarkCopies gives the same work to one server and to three on one
// Postgres: webhooks as fast as they are taken, and pull requests that wait in
// several queues, without time for CI. On a machine that one copy fills there is
// nothing to gain: what is shown is that copies lose nothing, do not wait for each
// other, and what a copy more costs.
func BenchmarkCopies(b *testing.B) {
	dbtest.Durable(b)
	m := benchtest.New(b, dbtest.New(b).SQL())
	one, three := withCopies(b, 1), withCopies(b, 3)
	m.End()
	for _, f := range []struct {
		what       string
		one, three float64
		must       float64
		atLeast    bool
	}{
		{"webhooks/s", one.webhooks, three.webhooks, 0.8, true},
		{"processor of a webhook, servers and Postgres", one.webhookServer + one.webhookPG, three.webhookServer + three.webhookPG, 1.25, false},
		{"pull requests landed a second, three queues", one.landed, three.landed, 0.8, true},
		{"processor of one that lands, servers and Postgres", one.landedServer + one.landedPG, three.landedServer + three.landedPG, 1.25, false},
	} {
		m.Judge(benchtest.Figure{ID: "x3", Measure: "three copies, of one: " + f.what, Got: f.three / f.one, Unit: " x", Must: f.must, AtLeast: f.atLeast,
			Calib: fmt.Sprintf("%s with one, %s with three", benchtest.Number(f.one), benchtest.Number(f.three))})
	}
	b.Logf("one copy %+v, three copies %+v", one, three)
	b.ReportMetric(0, "ns/op")
}

func withCopies(b *testing.B, n int) (did copiesDone) {
	h := newHooked(b, dbtest.DSN(b))
	must := demand(b)
	for range n - 1 {
		c := newChild(b, h.sim, h.dsn)
		c.env = append(c.env, asOperated...)
		c.start(b)
		must(persist(h.ctx, func() error {
			status, err := httpGet(h.ctx, c.url+"/readyz")
			if err == nil && status != 200 {
				err = errNotYet
			}
			return err
		}))
		h.copies = append(h.copies, c)
	}
	var turn atomic.Int64
	spread := newProxy(b, func() (net.Conn, error) {
		c := h.copies[int(turn.Add(1))%n]
		return net.Dial("tcp", c.address())
	})
	h.send(load{clients: 33, lasts: 2 * time.Second})
	h.settled()
	did.webhookServer, did.webhookPG = h.costs(func() int {
		got := h.send(load{clients: 33, lasts: 8 * time.Second})
		did.webhooks = got.perSecond()
		h.settled()
		h.kept(got)
		return len(got.took)
	})
	h.sim.SetWebhook("http://"+spread.address()+"/webhook", childSecret)
	h.drain(3, 32, &did)
	for _, c := range h.copies {
		c.end(b)
	}
	return did
}

// drain has so many pull requests land in each of so many queues of
// repositories of their own.
func (h *hooked) drain(queues, pulls int, did *copiesDone) {
	must := demand(h.b)
	var clients []*api.Queue
	for i := range queues {
		name := fmt.Sprint("drained", i)
		must(h.sim.CreateRepo(h.ctx, githubsim.NewRepo{Owner: demoOrg, Name: name, Creator: "alice", Checks: demoChecks, RequiredChecks: demoChecks, Files: filesOf(map[string]string{"README.md": "hello\n"})}))
		client := newClient(h.where(), h.token, name)
		must(persist(h.ctx, func() error {
			return client.Call(h.ctx, "createQueue", map[string]any{"state": "paused", "mergeMethod": "merge_commit", "concurrency": 4, "batch": true, "batchingMinSize": 16, "createPrsForTestingBranches": false}, nil)
		}))
		clients = append(clients, client)
	}
	var all sync.WaitGroup
	for _, client := range clients {
		all.Go(func() {
			for n := range pulls {
				opened, err := openChange(h.ctx, h.sim, client.Repo(), n)
				if err == nil {
					err = submitPull(h.ctx, client, opened.Number)
				}
				if err != nil {
					h.b.Error(err)
				}
			}
		})
	}
	all.Wait()
	total := queues * pulls
	must(awaitMergeable(h.ctx, h.store.SQL(), total))
	host := hostProcessor()
	began := time.Now()
	did.landedServer, did.landedPG = h.costs(func() int {
		for _, client := range clients {
			must(client.Call(h.ctx, "updateQueue", map[string]any{"state": "running"}, nil))
		}
		must(awaitMerged(h.ctx, h.store.SQL(), total))
		return total
	})
	did.landed = float64(total) / time.Since(began).Seconds()
	did.host = benchtest.Milliseconds((hostProcessor() - host) / time.Duration(total))
	for _, client := range clients {
		onceEach(h.b, h.sim, client.Repo(), pulls)
	}
}

// hostProcessor is the processor time of this program, in which the simulated
// GitHub is, and of the git programs that it has run.
func hostProcessor() time.Duration {
	return used(syscall.RUSAGE_SELF) + used(syscall.RUSAGE_CHILDREN)
}
