//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"signalbox/gitprovider/githubsim"
)

// copyOf is one copy of the server: a process of its own, on an address that it
// keeps, with a network to Postgres and one to GitHub.
type copyOf struct {
	c        *chaos
	address  string
	env      []string
	mirrors  string
	mounted  bool   // mirrors has a disk of its own, which can be full
	filler   string // what fills it
	database *proxy
	github   *proxy
	cmd      *exec.Cmd
	ended    chan struct{} // closed when the process has ended
	down     bool          // it is not to run
	log      *lockedBuffer
	starts   int
}

// mirrorDisk is the size of the disk of one copy's mirrors, in MiB.
const mirrorDisk = 64

func (c *chaos) newCopy(folder string) *copyOf {
	c.t.Helper()
	k := &copyOf{c: c, address: freeAddress(c.t), log: &lockedBuffer{}, down: true, mirrors: filepath.Join(folder, "data", "mirrors")}
	k.filler = filepath.Join(k.mirrors, "full")
	key := filepath.Join(folder, "key.pem")
	if err := errors.Join(os.MkdirAll(k.mirrors, 0o755), os.WriteFile(key, c.sim.AppKeyPEM(), 0o600)); err != nil {
		c.t.Fatal(err)
	}
	// Who may not mount has files limited in size instead: see fill.
	if syscall.Mount("tmpfs", k.mirrors, "tmpfs", 0, fmt.Sprintf("size=%dm", mirrorDisk)) == nil {
		k.mounted = true
		c.t.Cleanup(func() { syscall.Unmount(k.mirrors, syscall.MNT_FORCE|2) })
	}
	dsn := ""
	dsn, k.database = overTCP(c.t, c.pg.DSN(chaosDatabase))
	k.github = newProxy(c.t, func() (net.Conn, error) { return net.Dial("tcp", strings.TrimPrefix(c.sim.URL(), "http://")) })
	k.env = append(childEnv(c.sim, folder, dsn),
		"SIGNALBOX_LISTEN="+k.address, "SIGNALBOX_APP_PRIVATE_KEY_FILE="+key, "SIGNALBOX_GITHUB_URL=http://"+k.github.address())
	c.t.Cleanup(k.kill)
	return k
}

func (k *copyOf) start() {
	k.c.t.Helper()
	k.cmd = exec.Command(os.Args[0])
	k.cmd.Env, k.cmd.Stdout, k.cmd.Stderr = k.env, k.log, k.log
	if err := k.cmd.Start(); err != nil {
		k.c.t.Fatal(err)
	}
	k.down = false
	k.starts++
	ended, cmd := make(chan struct{}), k.cmd
	k.ended = ended
	go func() { _ = cmd.Wait(); close(ended) }() // how it ended is in its log
}

// kill ends the process as a power failure would. The git programs that it has
// started live on for a moment.
func (k *copyOf) kill() {
	if k.down || k.cmd == nil {
		return
	}
	k.down = true
	_ = k.cmd.Process.Kill() // it may have ended by itself
	<-k.ended
}

// again starts a copy that has ended by itself, as whoever runs it would: one
// that finds no database when it starts says so and ends.
func (k *copyOf) again() {
	select {
	case <-k.ended:
		if !k.down {
			k.start()
		}
	default:
	}
}

// await waits until the copy takes requests.
func (k *copyOf) await() {
	k.c.t.Helper()
	for {
		if resp, err := httpGet(k.c.ctx, "http://"+k.address+"/readyz"); err == nil && resp == 200 {
			return
		}
		k.again()
		select {
		case <-k.c.ctx.Done():
			k.c.t.Fatalf("a copy does not get ready:\n%s", k.log.tail(4000))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// fill fills the disk of the mirrors, or, without a disk of its own, forbids the
// process and all that it starts to write files of more than 1 KiB.
func (k *copyOf) fill() {
	if !k.mounted {
		_ = unix.Prlimit(k.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 10, Max: unix.RLIM_INFINITY}, nil) // it may have ended
		return
	}
	f, err := os.Create(k.filler)
	if err != nil {
		return // it is full already
	}
	defer f.Close()
	buf := make([]byte, 1<<16)
	for err == nil {
		_, err = f.Write(buf)
	}
}

func (k *copyOf) unfill() {
	if !k.mounted {
		_ = unix.Prlimit(k.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}, nil)
		return
	}
	os.Remove(k.filler)
}

// loseMirrors deletes what the copy has of the repositories, if it has any.
func (k *copyOf) loseMirrors() (lost bool) {
	all, _ := filepath.Glob(filepath.Join(k.mirrors, "*.git"))
	for _, path := range all {
		lost = os.RemoveAll(path) == nil || lost // git may be at work in it
	}
	return lost
}

// damage spoils one file of the mirrors, if there is one: cuts it off, or writes
// into it.
func (k *copyOf) damage(dice *mathrand.Rand) bool {
	var files []string
	filepath.WalkDir(k.mirrors, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && path != k.filler && !strings.HasSuffix(path, ".lock") {
			files = append(files, path)
		}
		return nil
	})
	if len(files) == 0 {
		return false
	}
	path := files[dice.IntN(len(files))]
	os.Chmod(path, 0o644) // git's packs cannot be written
	if dice.IntN(2) == 0 {
		return os.Truncate(path, int64(dice.IntN(64))) == nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return false // it is gone
	}
	defer f.Close()
	noise := make([]byte, 64)
	rand.Read(noise)
	_, err = f.WriteAt(noise, int64(dice.IntN(256)))
	return err == nil
}

// breakage is something that breaks for a while.
type breakage struct {
	name string
	// begin breaks it and returns what ends that; nil = nothing has to. happened is
	// false when there was nothing to break.
	begin func() (end func(), happened bool)
}

// breakages are all that can break, of one copy or of everything.
func (c *chaos) breakages(k *copyOf) []breakage {
	link := func(p *proxy, s linkState) func() (func(), bool) {
		return func() (func(), bool) { p.set(s); return func() { p.set(linkUp) }, true }
	}
	return []breakage{
		{"a server killed", func() (func(), bool) { k.kill(); return k.start, true }},
		{"a server killed", func() (func(), bool) { k.kill(); return k.start, true }},
		{"a server stopped for a while", func() (func(), bool) {
			cmd := k.cmd
			err := cmd.Process.Signal(syscall.SIGSTOP) // it may have ended
			return func() { _ = cmd.Process.Signal(syscall.SIGCONT) }, err == nil
		}},
		{"Postgres killed", func() (func(), bool) { c.pg.kill(); return c.pg.start, true }},
		{"the network to Postgres cut", link(k.database, linkCut)},
		{"the network to Postgres hung", link(k.database, linkHung)},
		{"the network to GitHub cut", link(k.github, linkCut)},
		{"the network to GitHub hung", link(k.github, linkHung)},
		{"no server reached by webhooks", link(c.hooks, linkCut)},
		{"webhooks repeated and out of order", func() (func(), bool) {
			_ = c.sim.SetWebhookFaults(githubsim.WebhookFaults{Repeat: 0.3, Reorder: 0.5, Seed: c.seed})
			return func() { _ = c.sim.SetWebhookFaults(githubsim.WebhookFaults{}) }, true
		}},
		{"a call of GitHub's failed", func() (func(), bool) { c.failCall(); return nil, true }},
		{"a call of GitHub's failed", func() (func(), bool) { c.failCall(); return nil, true }},
		{"a push held back by the network", func() (func(), bool) {
			_ = c.sim.Fail(githubsim.Fault{Path: "/*/git-receive-pack", Action: "late", DelayMs: 1000 + c.dice.IntN(90_000)})
			return nil, true
		}},
		{"a mirror lost", func() (func(), bool) { return nil, k.loseMirrors() }},
		{"a mirror damaged", func() (func(), bool) { return nil, k.damage(c.dice) }},
		{"a disk full", func() (func(), bool) { k.fill(); return k.unfill, true }},
	}
}

// failCall has one of GitHub's next answers go wrong, done or not.
func (c *chaos) failCall() {
	paths := []string{"/repos/*/git-receive-pack", "/*/git-receive-pack", "/repos/*/merge", "/repos/*/pulls/*", "/repos/*", "/app/installations/*", "/*/git-upload-pack", "/graphql"}
	actions := []string{"fail", "failAfter", "drop", "dropAfter", "slow", "limit"}
	_ = c.sim.Fail(githubsim.Fault{ // the fields are right: it cannot fail
		Path: paths[c.dice.IntN(len(paths))], Action: actions[c.dice.IntN(len(actions))], Times: 1 + c.dice.IntN(3), DelayMs: 3000, RetryAfter: 2,
	})
}

// mending is the end of a breakage.
type mending struct {
	at  time.Time
	key string
	end func()
}

// breakThings breaks one thing after the other until ctx ends, and mends each
// after a while, so that several are broken at once. What breaks next is dealt
// from a shuffled pack, so that everything has its turn.
func (c *chaos) breakThings(ctx context.Context) {
	var broken []mending
	var pack []int
	next := time.Now()
	for ctx.Err() == nil || len(broken) > 0 {
		time.Sleep(50 * time.Millisecond) // the pace of what breaks
		broken = slices.DeleteFunc(broken, func(m mending) bool {
			over := time.Now().After(m.at) || ctx.Err() != nil
			if over {
				m.end()
			}
			return over
		})
		for _, k := range c.copies {
			k.again()
		}
		if time.Now().Before(next) || ctx.Err() != nil {
			continue
		}
		next = time.Now().Add(time.Duration(1000+c.dice.IntN(4000)) * time.Millisecond)
		if len(pack) == 0 {
			pack = c.dice.Perm(len(c.breakages(c.copies[0])))
		}
		if m, happened := c.breakOne(pack[0], broken); happened {
			pack = pack[1:]
			if m.end != nil {
				broken = append(broken, m)
			}
		}
	}
	c.sim.ClearFaults()
}

// breakOne breaks something of any copy, unless it is broken already.
func (c *chaos) breakOne(what int, broken []mending) (m mending, happened bool) {
	copyNumber := c.dice.IntN(len(c.copies))
	b := c.breakages(c.copies[copyNumber])[what]
	lasts := time.Duration(500+c.dice.IntN(8000)) * time.Millisecond
	m = mending{time.Now().Add(lasts), fmt.Sprint(b.name, copyNumber), nil}
	switch {
	case strings.HasPrefix(b.name, "the network to "): // one state at a time
		m.key = fmt.Sprint(strings.Fields(b.name)[3], copyNumber)
	case b.name == "Postgres killed":
		m.key = b.name
	}
	if slices.ContainsFunc(broken, func(other mending) bool { return other.key == m.key }) ||
		b.name == "a server killed" && c.copies[copyNumber].down {
		return m, false
	}
	if m.end, happened = b.begin(); happened {
		c.broke[b.name]++
		c.t.Logf("%s of copy %d: %s, %s", time.Now().Format(time.TimeOnly), copyNumber, b.name, lasts)
	}
	return m, happened
}

// count is how many lines of a log match.
func (b *lockedBuffer) count(what *regexp.Regexp) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(what.FindAllIndex(b.buf.Bytes(), -1))
}

// panics are the lines of a log that tell of a panic or of a race.
func (b *lockedBuffer) panics() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var lines []string
	for line := range bytes.Lines(b.buf.Bytes()) {
		if bytes.Contains(line, []byte("panic")) || bytes.Contains(line, []byte("DATA RACE")) {
			lines = append(lines, string(line))
		}
	}
	return lines
}
