package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/gitprovider/github"
	"signalbox/gitprovider/githubsim"
)

// childVariable makes the test binary the program itself.
const childVariable = "SIGNALBOX_TEST_RUNS_AS"

// ownArguments as the value of childVariable means those of the process.
const ownArguments = "its own arguments"

// asChild runs the command line that a test asked for, as main does.
func asChild() {
	args := os.Getenv(childVariable)
	if args == "" {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	words := strings.Fields(args)
	if args == ownArguments {
		words = os.Args[1:]
	}
	profiled := profile()
	err := run(ctx, words, console{in: os.Stdin, out: os.Stdout, err: os.Stderr})
	profiled()
	stop()
	os.Exit(conclude(err, os.Stderr))
}

// profileVariable names a folder that programs started by tests write profiles of
// their processor time into, for go tool pprof.
const profileVariable = "SIGNALBOX_BENCH_PROFILE"

// profile begins a profile when one is wanted. What it returns ends it.
func profile() (end func()) {
	folder := os.Getenv(profileVariable)
	if folder == "" {
		return func() {}
	}
	file, err := os.Create(filepath.Join(folder, fmt.Sprintf("cpu-%d.pprof", os.Getpid())))
	if err == nil {
		err = pprof.StartCPUProfile(file)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "no profile:", err)
	}
	return pprof.StopCPUProfile
}

// moments is how many times the server is killed, each in a play of its own.
const moments = 10

// TestAKilledServerLosesNothing plays the ten pull requests of the demo, kills
// the server with SIGKILL at a moment that the seed decides, starts it again,
// and demands that every pull request ends as it should, that main is green,
// that what landed was tested, and that nothing landed twice.
//
// A moment is a number of moves that have been saved, and a little later: so
// it falls into the play however fast the machine is.
func TestAKilledServerLosesNothing(t *testing.T) {
	t.Parallel()
	n := moments
	if testing.Short() {
		n = 2
	}
	for seed := range n {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			dice := rand.New(rand.NewPCG(uint64(seed), 6))
			// Spread over the play, not all at its beginning.
			moves := seed*5 + dice.IntN(5)
			d, sim, git := crash(t, moves, time.Duration(dice.IntN(400))*time.Millisecond)
			if seed == 0 {
				verifyHistory(t, d, sim, git)
			}
		})
	}
}

// crash plays once and kills the server so many moves and so long after the
// beginning. It returns the database, the host, and where the host keeps
// repositories.
func crash(t *testing.T, moves int, later time.Duration) (dsn string, host *githubsim.Server, git string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	git = t.TempDir()
	s := newServed(ctx, t, githubsim.Config{DataDir: git})
	dsn, host = s.dsn, s.sim
	p, child, store := s.play, s.child, s.store
	planted := plant(host, s.token)
	if err := persist(ctx, func() error { return planted.subscribe(ctx, p.client.Client) }); err != nil {
		t.Fatal(err)
	}
	watched := planted.watch(t)
	played := p.begin(ctx, githubsim.CI{MinSeconds: 0.2, MaxSeconds: 0.4})

	if err := await(ctx, store.SQL(), fmt.Sprintf(`SELECT count(*) >= %d FROM timeline`, moves)); err != nil {
		t.Fatalf("wait for %d moves: %v\n%s", moves, err, child.tail())
	}
	time.Sleep(later) // not to wait for something, but to be at any moment
	child.kill(t)
	t.Logf("killed %s after move %d", later, moves)
	child.start(t)

	if err := <-played; err != nil {
		t.Fatalf("%v\n%s", err, child.tail())
	}
	found, err := (&auditor{sim: host, host: asApp(t, host, dsn), client: p.client, db: store}).check(ctx)
	if err != nil {
		t.Error(err)
	}
	if err := p.verdicts(); err != nil {
		t.Errorf("%v\n%s", err, child.tail())
	}
	if found.Commits != 5 || len(found.Landings) != 5 {
		t.Errorf("%d commits landed and %d have receipts, want 5", found.Commits, len(found.Landings))
	}
	planted.search(t, "an answer", answers(t, child.url))
	child.end(t)
	watched()
	planted.search(t, "the log", child.log.tail(1<<30))
	planted.searchDatabase(t, store)
	return dsn, host, git
}

// served is a server in a process of its own, on a simulated GitHub, with a token
// for a play.
type served struct {
	*play
	child *child
	store *db.DB
	dsn   string
	token string
}

// newServed starts them on a database of the test's own; settings are more
// variables of the server.
func newServed(ctx context.Context, t testing.TB, cfg githubsim.Config, settings ...string) *served {
	t.Helper()
	return newServedOn(ctx, t, dbtest.DSN(t), cfg, settings...)
}

// newServedOn starts them on a database.
func newServedOn(ctx context.Context, t testing.TB, dsn string, cfg githubsim.Config, settings ...string) *served {
	t.Helper()
	s := &served{dsn: dsn}
	s.store = dbtest.Open(t, s.dsn)
	host, err := githubsim.Start(context.WithoutCancel(ctx), cfg, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.Close)
	s.child = newChild(t, host, s.dsn)
	s.child.env = append(s.child.env, settings...)
	s.child.start(t)
	host.SetWebhook(s.child.url+"/webhook", childSecret)
	if _, s.token, err = createToken(ctx, s.store, demoOrg, "play", "admin", time.Time{}); err != nil {
		t.Fatal(err)
	}
	s.play = &play{sim: host, client: newClient(s.where(), s.token, demoRepo), tell: func(string, ...any) {}}
	return s
}

// where is where programs reach the server.
func (s *served) where() whereabouts {
	return whereabouts{API: s.child.url + "/v1", Org: demoOrg, Host: demoHost}
}

// begin plays in the background; the channel yields how that went.
func (p *play) begin(ctx context.Context, ci githubsim.CI) <-chan error {
	played := make(chan error, 1)
	go func() {
		err := p.prepare(ctx, ci)
		if err == nil {
			err = p.perform(ctx)
		}
		played <- err
	}()
	return played
}

// asApp reads a simulated GitHub as the App does, with mirrors of its own.
func asApp(t *testing.T, s *githubsim.Server, dsn string) *github.Client {
	t.Helper()
	cfg, err := settingsFor(s, dsn, t.TempDir(), "secret").check(discard)
	if err != nil {
		t.Fatal(err)
	}
	host, err := github.New(hostConfig(cfg))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.Close)
	return host
}

const childSecret = "the secret of a child's webhook"

// child is a server in a process of its own, on a port that it keeps.
type child struct {
	program string // "" = this test binary, which then is the program
	url     string
	env     []string
	cmd     *exec.Cmd
	log     *lockedBuffer
}

// address is where it listens, host and port.
func (c *child) address() string { return strings.TrimPrefix(c.url, "http://") }

func newChild(t testing.TB, host *githubsim.Server, dsn string) *child {
	t.Helper()
	address, folder := freeAddress(t), t.TempDir()
	key := filepath.Join(folder, "key.pem")
	if err := os.WriteFile(key, host.AppKeyPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	return &child{url: "http://" + address, log: &lockedBuffer{}, env: append(childEnv(host, folder, dsn),
		"SIGNALBOX_LISTEN="+address, "SIGNALBOX_APP_PRIVATE_KEY_FILE="+key)}
}

// childEnv is the environment of a server in a process of its own, which keeps
// its files in a folder. Of a variable that is there twice the last one counts.
func childEnv(host *githubsim.Server, folder, dsn string) []string {
	return []string{
		childVariable + "=serve", profileVariable + "=" + os.Getenv(profileVariable), "PATH=" + os.Getenv("PATH"), "HOME=" + folder, "TMPDIR=" + os.TempDir(),
		"DATABASE_URL=" + dsn, "SIGNALBOX_DATABASE_CONNECTIONS=8", "SIGNALBOX_DATA_DIR=" + filepath.Join(folder, "data"),
		"SIGNALBOX_METRICS_LISTEN=off", "SIGNALBOX_DASHBOARD_AUTH=none",
		"SIGNALBOX_GITHUB_URL=" + host.URL(), "SIGNALBOX_GITHUB_LIMITS=off", "SIGNALBOX_HOST=" + demoHost,
		fmt.Sprint("SIGNALBOX_APP_ID=", host.AppID()), "SIGNALBOX_WEBHOOK_SECRET=" + childSecret, "SIGNALBOX_LOG_LEVEL=debug",
	}
}

func (c *child) start(t testing.TB) {
	t.Helper()
	c.cmd = exec.Command(cmp.Or(c.program, os.Args[0]), "serve")
	c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = c.env, c.log, c.log
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd := c.cmd
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()
		}
	})
}

// kill ends the server as a power failure would.
func (c *child) kill(t testing.TB) {
	t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Wait(); err == nil || c.cmd.ProcessState.Exited() {
		t.Fatalf("the server had ended by itself: %s\n%s", c.cmd.ProcessState, c.tail())
	}
}

// end stops the server, which must do so in order.
func (c *child) end(t testing.TB) {
	t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("the server did not stop in order: %v\n%s", err, c.tail())
	}
}

func (c *child) tail() string { return "the end of the server's log:\n" + c.log.tail(6000) }
