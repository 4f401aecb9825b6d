//go:build linux

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"signalbox/benchtest"
	"signalbox/gitprovider/githubsim"
)

// What those have in common who load a server.

// asOperated are settings of a server that is measured.
var asOperated = []string{"SIGNALBOX_LOG_LEVEL=info", "SIGNALBOX_DATABASE_CONNECTIONS=20"}

// sample is the last webhook of the simulated GitHub about a check of CI, to be
// sent again.
type sample struct{ atomic.Pointer[[]byte] }

// sent hears of the simulator's webhooks.
func (s *sample) sent(event string, payload []byte) {
	if event == "check_run" && bytes.Contains(payload, []byte(`"name":"`+demoChecks[0]+`"`)) { // and not our own
		s.Store(&payload)
	}
}

// signature is the header that shows that a webhook is the host's.
func signature(body []byte) string {
	mac := hmac.New(sha256.New, []byte(childSecret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// hookLine is one connection that webhooks are sent on.
type hookLine struct {
	address string
	conn    net.Conn
	answers *bufio.Reader
}

// send sends a webhook and waits for its answer. It is no http.Client because
// that would take as much of the machine as the server does.
func (l *hookLine) send(id string, body []byte) (status int, err error) {
	if l.conn == nil {
		if l.conn, err = net.Dial("tcp", l.address); err != nil {
			l.conn = nil
			return 0, err
		}
		l.answers = bufio.NewReader(l.conn)
	}
	request := append([]byte(fmt.Sprintf("POST /webhook HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nX-Github-Event: check_run\r\n"+
		"X-Github-Delivery: %s\r\nX-Hub-Signature-256: %s\r\nContent-Length: %d\r\n\r\n", l.address, id, signature(body), len(body))), body...)
	l.conn.SetDeadline(time.Now().Add(patience)) // a test that hangs says nothing
	_, err = l.conn.Write(request)
	var answer *http.Response
	if err == nil {
		answer, err = http.ReadResponse(l.answers, nil)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, answer.Body)
	}
	if err != nil {
		l.close()
		return 0, err
	}
	if answer.Close { // the server wants no more on this connection
		l.close()
	}
	return answer.StatusCode, nil
}

func (l *hookLine) close() {
	if l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
}

// openChange opens the n-th of many pull requests, each with a file of its own.
func openChange(ctx context.Context, sim *githubsim.Server, repo string, n int) (githubsim.Opened, error) {
	return sim.OpenPull(ctx, githubsim.OpenPull{
		Repo: repo, Title: fmt.Sprintf("Change %d", n), Author: "alice", Files: filesOf(map[string]string{fmt.Sprintf("dir%d/file%d", n%20, n): "text\n"}),
	})
}

// awaitMerged waits until so many have been merged.
func awaitMerged(ctx context.Context, pool *sql.DB, pulls int) error {
	return await(ctx, pool, fmt.Sprintf(`SELECT count(*) = %d FROM entries WHERE state = 'merged'`, pulls))
}

// awaitMergeable waits until so many can be merged and nothing is asked about them.
func awaitMergeable(ctx context.Context, pool *sql.DB, pulls int) error {
	return await(ctx, pool, fmt.Sprintf(`SELECT count(*) = %d FROM entries
		WHERE mergeability = 'mergeable' AND NOT doubted AND refresh_asked IS NULL AND state IN ('pending', 'not_ready')`, pulls))
}

// awaitJobs waits until no job is left that could run.
func awaitJobs(ctx context.Context, pool *sql.DB) error {
	return await(ctx, pool, `SELECT NOT EXISTS (SELECT 1 FROM river_job WHERE state IN ('available', 'running', 'retryable'))`)
}

// onceEach sees that every pull request of a repository is in main once.
func onceEach(t testing.TB, sim *githubsim.Server, repo string, pulls int) {
	t.Helper()
	log, err := sim.Log(t.Context(), repo, "main")
	demand(t)(err)
	if n := len(log) - 1; n != pulls {
		t.Fatalf("%s: %d commits are on main, want %d", repo, n, pulls)
	}
}

// bound is what a share of many durations must be, and should be, at most in
// milliseconds.
type bound struct {
	name           string
	at, must, goal float64
}

// judge gives verdicts on shares of durations. In the measure of the figure %s
// stands for the name of the share.
func judge(m *benchtest.Meter, took []time.Duration, f benchtest.Figure, bounds ...bound) {
	for _, share := range bounds {
		one := f
		one.Measure, one.Unit = fmt.Sprintf(f.Measure, share.name), " ms"
		one.Got, one.Must, one.Goal = benchtest.Milliseconds(benchtest.Quantile(took, share.at)), share.must, share.goal
		one.Calib = cmp.Or(f.Calib, benchtest.Number(one.Got*m.Commits/1000)+" x a commit")
		m.Judge(one)
	}
}

// used is the processor time of this program, or of the children that it has
// waited for; who is as for getrusage.
func used(who int) time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(who, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
