package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"signalbox/gitprovider"
	"signalbox/queue"
)

// Config is how mirrors are kept. Dir is required; everything else has a default.
type Config struct {
	// Dir holds one folder and one lock file for each repository.
	Dir string
	// Git is the git program, "git" if empty. 2.38 or newer.
	Git string
	// Name and Email are the committer of every commit that is made, and the
	// author of merge commits. They never change for one installation of the
	// program, or commit ids would.
	Name, Email string
	// Filter is the partial clone filter; "blob:none" if empty, none if "off".
	Filter string
	// AllowFile lets repositories be reached by file paths. For tests.
	AllowFile bool
	// Timeout bounds one run of git, five minutes if zero.
	Timeout time.Duration
	// Log receives rebuilds and housekeeping; nothing is logged if nil.
	Log *slog.Logger
}

// Mirrors are the local clones of all repositories. It is safe for
// concurrent use; work on one repository waits for its turn.
type Mirrors struct {
	cfg Config

	mu    sync.Mutex // guards turns
	turns map[string]chan struct{}
}

// Source is a repository as it is reached at this moment.
type Source struct {
	Repo queue.Repo
	// URL is the clone address, without credentials.
	URL string
	// Token is sent as the password of basic authentication; "" for none.
	Token string
	// Emails lists the lower-case e-mail addresses that the host knows to be
	// those of a step's author, among those in its commits. It is asked only
	// when the commits of a pull request that is squashed do not tell. Nil:
	// nobody knows.
	Emails func(ctx context.Context, s queue.StepSpec) ([]string, error)
}

// New checks that git is there and new enough and prepares the folder.
func New(cfg Config) (*Mirrors, error) {
	if cfg.Dir == "" {
		return nil, errors.New("mirror: no data folder given")
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("mirror: %w", err)
	}
	cfg.Dir = dir
	cfg.Git = cmp.Or(cfg.Git, "git")
	cfg.Name = cmp.Or(person(cfg.Name), "signalbox[bot]")
	cfg.Email = cmp.Or(address(cfg.Email), "signalbox[bot]@users.noreply.github.com")
	cfg.Filter = cmp.Or(cfg.Filter, "blob:none")
	cfg.Timeout = cmp.Or(cfg.Timeout, 5*time.Minute)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("mirror: make data folder: %w", err)
	}
	if err := checkVersion(cfg.Git); err != nil {
		return nil, err
	}
	return &Mirrors{cfg: cfg, turns: map[string]chan struct{}{}}, nil
}

var versionText = regexp.MustCompile(`(\d+)\.(\d+)`)

// checkVersion refuses a git that cannot merge without a work tree.
func checkVersion(git string) error {
	out, err := exec.Command(git, "version").Output()
	if err != nil {
		return fmt.Errorf("mirror: the git program is needed to build test branches; install git 2.38 or newer: %w", err)
	}
	found := versionText.FindSubmatch(out)
	if found == nil {
		return fmt.Errorf("mirror: %q does not say its version", git)
	}
	major, _ := strconv.Atoi(string(found[1]))
	minor, _ := strconv.Atoi(string(found[2]))
	if major < 2 || major == 2 && minor < 38 {
		return fmt.Errorf("mirror: git %d.%d is too old; install git 2.38 or newer", major, minor)
	}
	return nil
}

// clone is one mirror in somebody's hands: the lock is held.
type clone struct {
	m   *Mirrors
	dir string
	src Source
	log *slog.Logger
}

// errBroken marks what a healthy mirror with a healthy connection would not say.
var errBroken = errors.New("the local mirror is broken")

// errUnreachable marks what may be better in a while: git could not be talked to.
var errUnreachable = errors.New("the host could not be reached with git")

// with runs do on a repository's mirror, alone. A mirror that turns out to be
// broken is made anew and do is run once more; do must bear that.
func (m *Mirrors) with(ctx context.Context, src Source, do func(*clone) error) error {
	c, release, err := m.take(ctx, src)
	if err != nil {
		return err
	}
	defer release()
	if err := c.ready(ctx); err != nil {
		return err
	}
	err = do(c)
	if !errors.Is(err, errBroken) || ctx.Err() != nil {
		return err
	}
	// A partial clone fetches while it merges. If the host cannot be
	// reached, that is what failed, and a fresh mirror would not help.
	if remote := c.reachable(ctx); remote != nil {
		return remote
	}
	c.log.Warn("rebuild mirror", "why", err)
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("remove broken mirror: %w", err)
	}
	if err := c.ready(ctx); err != nil {
		return err
	}
	return do(c)
}

var unsafeInName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// take waits for a repository's turn in this process and among others.
func (m *Mirrors) take(ctx context.Context, src Source) (*clone, func(), error) {
	if err := m.checkSource(src); err != nil {
		return nil, nil, err
	}
	// The host's number survives renames; our own stands in for it.
	key := "r" + strconv.FormatInt(int64(src.Repo.ID), 10)
	if src.Repo.HostID != 0 {
		key = strconv.FormatInt(src.Repo.HostID, 10)
	}
	key = strings.Trim(unsafeInName.ReplaceAllString(src.Repo.Host, "_"), ".") + "-" + key

	m.mu.Lock()
	turn := m.turns[key]
	if turn == nil {
		turn = make(chan struct{}, 1)
		m.turns[key] = turn
	}
	m.mu.Unlock()
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("wait for the mirror of %s: %w", src.Repo, ctx.Err())
	}
	unlock, err := lockFile(ctx, filepath.Join(m.cfg.Dir, key+".lock"))
	if err != nil {
		<-turn
		return nil, nil, fmt.Errorf("lock the mirror of %s: %w", src.Repo, err)
	}
	c := &clone{m: m, dir: filepath.Join(m.cfg.Dir, key+".git"), src: src,
		log: m.cfg.Log.With("repo", src.Repo.String())}
	return c, func() { unlock(); <-turn }, nil
}

// checkSource keeps anything but a plain address away from git.
func (m *Mirrors) checkSource(src Source) error {
	u := src.URL
	ok := strings.HasPrefix(u, "https://") || strings.HasPrefix(u, "http://") || m.cfg.AllowFile && strings.HasPrefix(u, "/")
	if !ok || strings.ContainsAny(u, "\x00\n\r ") {
		return &gitprovider.Error{Kind: gitprovider.Denied, Message: fmt.Sprintf("%q is not an address that git may be sent to", u)}
	}
	return nil
}

// ready makes the mirror if it is not there, and keeps house. Nothing is
// fetched: what an operation needs, it fetches.
func (c *clone) ready(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(c.dir, "signalbox-ready")); err == nil {
		if _, err := os.Stat(filepath.Join(c.dir, "HEAD")); err == nil {
			return c.keepHouse(ctx)
		}
	}
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("remove half-made mirror: %w", err)
	}
	if _, err := c.git(ctx, job{outside: true, args: []string{"init", "--quiet", "--bare", "--template=", "--initial-branch=signalbox-none", "--", c.dir}}); err != nil {
		return fmt.Errorf("make mirror: %w", err)
	}
	config := "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"
	if c.m.cfg.Filter != "off" {
		// What a partial clone is, without the clone. The address is not in
		// it: each run of git is told the one that holds at that moment.
		config += "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = origin\n" +
			"[remote \"origin\"]\n\tpromisor = true\n\tpartialclonefilter = " + c.m.cfg.Filter + "\n"
	}
	if err := appendFile(filepath.Join(c.dir, "config"), config); err != nil {
		return fmt.Errorf("make mirror: %w", err)
	}
	if err := appendFile(filepath.Join(c.dir, "signalbox-ready"), "made by signalbox; may be deleted at any time\n"); err != nil {
		return fmt.Errorf("make mirror: %w", err)
	}
	c.log.Info("made mirror")
	return nil
}

func appendFile(name, text string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// The limits above which a mirror is packed: about as many packs as git
// itself bears, and about 15,000 loose objects (one of 256 folders is counted).
const (
	manyPacks = 50
	manyLoose = 60
)

// keepHouse packs the mirror now and then. Objects that nothing points to are
// kept for two hours and can be fetched again after that. A failure costs
// speed only.
func (c *clone) keepHouse(ctx context.Context) error {
	packs, _ := filepath.Glob(filepath.Join(c.dir, "objects", "pack", "*.pack"))
	loose, _ := os.ReadDir(filepath.Join(c.dir, "objects", "17"))
	if len(packs) < manyPacks && len(loose) < manyLoose {
		return nil
	}
	began := time.Now()
	_, err := c.git(ctx, job{args: []string{"gc", "--quiet", "--prune=2.hours.ago"}})
	if err != nil && ctx.Err() == nil {
		c.log.Warn("pack mirror", "error", err)
	}
	c.log.Info("packed mirror", "packs", len(packs), "took", time.Since(began))
	return ctx.Err()
}
