package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
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
	// SigningKey is the file of an OpenSSH private key without a passphrase,
	// Ed25519 or RSA, with which every commit that is made is signed; none if
	// empty. Those two kinds sign the same commit the same way each time, so
	// that building a chain again gives the same commit ids; GPG does not. The
	// host shows the commits as verified when the public half is a signing key
	// of the account that Email belongs to.
	SigningKey string
	// Filter is the partial clone filter; "blob:none" if empty, none if "off".
	Filter string
	// AllowFile lets repositories be reached by file paths. For tests.
	AllowFile bool
	// Timeout bounds one run of git, five minutes if zero.
	Timeout time.Duration
	// CloneTimeout bounds the first fetch of a repository, two hours if zero;
	// ClonePatience is how long anything else waits for it before it gives up
	// with a [CloningError], half a minute if zero.
	CloneTimeout, ClonePatience time.Duration
	// MaxSize bounds the packs of one mirror on disk, in bytes, 20 GiB if
	// zero. A mirror that grows above it is made anew; one that is above it
	// from the start is refused.
	MaxSize int64
	// Log receives rebuilds and housekeeping; nothing is logged if nil.
	Log *slog.Logger
}

// Mirrors are the local clones of all repositories. It is safe for
// concurrent use; work on one repository waits for its turn.
type Mirrors struct {
	cfg Config

	life    context.Context // of first fetches and packing; ended by Close
	end     context.CancelFunc
	running sync.WaitGroup // those

	weighEvery time.Duration // how often the size of a mirror is looked at during a fetch

	mu     sync.Mutex // guards what follows
	turns  map[string]chan struct{}
	firsts map[string]*firstFetch // those that run, by the mirror's key
	tidied map[string]time.Time   // when packing began last
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
	// Body is what a merge or squash commit says under its title, as somebody
	// wrote it: it is made harmless here. Nil: nothing.
	Body func(ctx context.Context, s queue.StepSpec) (string, error)
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
	cfg.CloneTimeout = cmp.Or(cfg.CloneTimeout, 2*time.Hour)
	cfg.ClonePatience = cmp.Or(cfg.ClonePatience, 30*time.Second)
	cfg.MaxSize = cmp.Or(cfg.MaxSize, 20<<30)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("mirror: make data folder: %w", err)
	}
	m := &Mirrors{cfg: cfg, weighEvery: 5 * time.Second, turns: map[string]chan struct{}{}, firsts: map[string]*firstFetch{}, tidied: map[string]time.Time{}}
	m.life, m.end = context.WithCancel(context.Background())
	if err := m.checkVersion(); err != nil {
		m.Close()
		return nil, err
	}
	if err := m.checkKey(); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Close ends first fetches and packing that still run, and waits for their end. Nothing
// may be asked of m afterwards.
func (m *Mirrors) Close() {
	m.end()
	m.running.Wait()
}

var versionText = regexp.MustCompile(`(\d+)\.(\d+)`)

// checkVersion refuses a git that cannot merge without a work tree.
func (m *Mirrors) checkVersion() error {
	out, err := (&clone{m: m}).git(m.life, job{outside: true, args: []string{"version"}})
	if err != nil {
		return fmt.Errorf("mirror: the git program is needed to build test branches; install git 2.38 or newer: %w", err)
	}
	found := versionText.FindSubmatch(out)
	if found == nil {
		return fmt.Errorf("mirror: %q does not say its version", m.cfg.Git)
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
	key string // names it among the mirrors
	dir string
	src Source
	log *slog.Logger
	// read and merged remember, while the mirror is in hand, commits that were
	// read and what merging two commits gave: neither can change.
	read   map[string]Commit
	merged map[[2]string]string
}

// errBroken marks what a healthy mirror with a healthy connection would not say.
var errBroken = errors.New("the local mirror is broken")

// errUnreachable marks what may be better in a while: git could not be talked to.
var errUnreachable = errors.New("the host could not be reached with git")

// errTooBig marks a run of git that was ended because the mirror grew above its cap.
var errTooBig = errors.New("the local mirror is too big")

// with runs do on a repository's mirror, alone. A mirror that turns out to be
// broken or too big is made anew and do is run once more; do must bear that.
func (m *Mirrors) with(ctx context.Context, src Source, do func(*clone) error) error {
	for rebuilt := false; ; rebuilt = true {
		c, release, err := m.hold(ctx, src)
		if err != nil {
			return c.tooBig(err)
		}
		if err = errTooBig; c.size() <= m.cfg.MaxSize {
			err = do(c)
		}
		m.tidy(c)
		if rebuilt || ctx.Err() != nil || !c.useless(err) {
			release()
			return c.tooBig(err)
		}
		// A partial clone fetches while it merges. If the host cannot be
		// reached, that is what failed, and a fresh mirror would not help.
		if remote := c.reachable(ctx); remote != nil {
			release()
			return remote
		}
		c.log.Warn("rebuild mirror", "why", err)
		err = os.RemoveAll(c.dir)
		release()
		if err != nil {
			return fmt.Errorf("remove broken mirror: %w", err)
		}
	}
}

// useless reports whether an error is one that a new mirror would not have.
// It errs on the side of rebuilding only where the files are gone or git
// itself complains about them.
func (c *clone) useless(err error) bool {
	return err != nil && (errors.Is(err, errBroken) || errors.Is(err, errTooBig) || !c.whole())
}

// tooBig tells an operator what to do about a mirror above its cap.
func (c *clone) tooBig(err error) error {
	if !errors.Is(err, errTooBig) {
		return err
	}
	return &gitprovider.Error{Kind: gitprovider.Denied, Err: err, Message: fmt.Sprintf(
		"the local copy of %s needs more than the %d MiB of disk that it may take; allow more with SIGNALBOX_MIRROR_SIZE", c.src.Repo, c.m.cfg.MaxSize>>20)}
}

var unsafeInName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// at is a repository's mirror, in nobody's hands yet.
func (m *Mirrors) at(src Source) *clone {
	// The host's number survives renames; our own stands in for it.
	key := "r" + strconv.FormatInt(int64(src.Repo.ID), 10)
	if src.Repo.HostID != 0 {
		key = strconv.FormatInt(src.Repo.HostID, 10)
	}
	key = strings.Trim(unsafeInName.ReplaceAllString(src.Repo.Host, "_"), ".") + "-" + key
	return &clone{m: m, key: key, dir: filepath.Join(m.cfg.Dir, key+".git"), src: src, log: m.cfg.Log.With("repo", src.Repo.String()),
		read: map[string]Commit{}, merged: map[[2]string]string{}}
}

// hold takes a repository's mirror in hand, and has it made first where there
// is none. The clone is returned with an error too.
func (m *Mirrors) hold(ctx context.Context, src Source) (*clone, func(), error) {
	c := m.at(src)
	if err := m.checkSource(src); err != nil {
		return c, nil, err
	}
	for {
		turn, first, err := m.turn(ctx, c)
		if err != nil {
			return c, nil, err
		}
		if first == nil {
			unlock, err := lockFile(ctx, filepath.Join(m.cfg.Dir, c.key+".lock"))
			if err != nil {
				<-turn
				return c, nil, fmt.Errorf("lock the mirror of %s: %w", src.Repo, err)
			}
			if c.whole() {
				return c, func() { unlock(); <-turn }, nil
			}
			first = m.begin(c, unlock)
		}
		<-turn
		if err := first.wait(ctx, m.cfg.ClonePatience); err != nil {
			return c, nil, err
		}
	}
}

// turn waits for a repository's turn in this process. first is its first
// fetch if that is under way.
func (m *Mirrors) turn(ctx context.Context, c *clone) (turn chan struct{}, first *firstFetch, err error) {
	m.mu.Lock()
	turn = m.turns[c.key]
	if turn == nil {
		turn = make(chan struct{}, 1)
		m.turns[c.key] = turn
	}
	m.mu.Unlock()
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("wait for the mirror of %s: %w", c.src.Repo, ctx.Err())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return turn, m.firsts[c.key], nil
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

// The limits above which a mirror is packed: about as many packs as git
// itself bears, and about 15,000 loose objects (one of 256 folders is counted).
const (
	manyPacks = 50
	manyLoose = 60
)

// tidyPause is the least time between two packings of a mirror.
const tidyPause = time.Hour

// tidy has a mirror packed now and then: partial clones get a small pack with
// every merge that looks into files. On a large repository that takes longer
// than an attempt may, so it runs beside the work, which git allows for.
// Objects that nothing points to are kept for two hours and can be fetched
// again after that. A failure costs speed only.
func (m *Mirrors) tidy(c *clone) {
	packs, _ := filepath.Glob(filepath.Join(c.dir, "objects", "pack", "*.pack"))
	loose, _ := os.ReadDir(filepath.Join(c.dir, "objects", "17"))
	if len(packs) < manyPacks && len(loose) < manyLoose {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if last, ok := m.tidied[c.key]; ok && time.Since(last) < tidyPause || m.life.Err() != nil {
		return
	}
	m.tidied[c.key] = time.Now()
	m.running.Go(func() {
		began, size := time.Now(), c.size()
		if _, err := c.git(m.life, job{timeout: m.cfg.CloneTimeout, args: []string{"gc", "--quiet", "--prune=2.hours.ago"}}); err != nil {
			c.log.Warn("pack mirror", "error", err)
			return
		}
		c.log.Info("packed mirror", "packs", len(packs), "took", time.Since(began), "bytes", size, "bytes after", c.size())
	})
}
