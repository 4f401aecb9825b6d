package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"signalbox/gitprovider"
)

// firstFetch is the fetch that makes a new mirror useful: all commits and
// trees of the host's default branch. On a large repository it takes far
// longer than any attempt at anything else may, so it belongs to nobody's
// attempt: it goes on when the one that began it gives up, and whoever comes
// next finds it further on, or done.
type firstFetch struct {
	repo  string
	began time.Time
	done  chan struct{} // closed at the end; err is set before

	err error

	mu   sync.Mutex // guards said
	said string     // git's last word about how far it is
}

// CloningError says that the first copy of a repository is still being
// fetched. It is transient: try again later.
type CloningError struct {
	Repo     string
	Since    time.Time
	Progress string // git's own words, such as "Receiving objects: 43% (430/1000), 12.1 MiB"; may be empty
}

// Error tells people what they are waiting for.
func (e *CloningError) Error() string {
	text := fmt.Sprintf("Signalbox is still fetching its first copy of %s (since %s UTC", e.Repo, e.Since.UTC().Format("15:04"))
	if e.Progress != "" {
		text += "; " + e.Progress
	}
	return text + "). Test branches are built as soon as it is there"
}

// wait waits for the fetch to end: as long as patience and ctx last.
func (f *firstFetch) wait(ctx context.Context, patience time.Duration) error {
	enough := time.NewTimer(patience)
	defer enough.Stop()
	select {
	case <-f.done:
		return f.err
	case <-enough.C:
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	cloning := &CloningError{Repo: f.repo, Since: f.began, Progress: f.said}
	return &gitprovider.Error{Kind: gitprovider.Transient, Message: cloning.Error(), Err: cloning}
}

// heard keeps git's last word.
func (f *firstFetch) heard(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = line
}

func (f *firstFetch) last() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.said
}

// begin starts the first fetch of a mirror that is in the caller's hands. From
// here on it is in those of the fetch, and unlock is its to call.
func (m *Mirrors) begin(c *clone, unlock func()) *firstFetch {
	f := &firstFetch{repo: c.src.Repo.String(), began: time.Now(), done: make(chan struct{})}
	m.mu.Lock()
	m.firsts[c.key] = f
	m.mu.Unlock()
	m.running.Go(func() {
		defer func() {
			unlock()
			m.mu.Lock()
			delete(m.firsts, c.key)
			m.mu.Unlock()
			close(f.done)
		}()
		f.err = c.first(m.life, f)
	})
	return f
}

// first makes the mirror and fetches for the first time. What it leaves
// behind when it fails is removed by the next.
func (c *clone) first(ctx context.Context, f *firstFetch) error {
	if err := c.lay(ctx); err != nil {
		return err
	}
	c.log.Info("fetch the first copy")
	quiet := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		tick := time.NewTicker(time.Minute)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.log.Info("the first copy is being fetched", "since", f.began, "progress", f.last())
			case <-quiet:
				return
			}
		}
	})
	_, err := c.git(ctx, job{
		remote: true, progress: f.heard, timeout: c.m.cfg.CloneTimeout,
		args: []string{"fetch", "--progress", "--no-tags", "--no-auto-gc", "--no-recurse-submodules", "--end-of-options", "origin", "+HEAD:refs/signalbox/first"},
	})
	close(quiet)
	telling.Wait()
	if err != nil {
		if err = c.emptyHost(ctx, err); err != nil {
			return fmt.Errorf("fetch the first copy of %s: %w", c.src.Repo, err)
		}
	}
	if err := appendFile(c.marker(), "made by signalbox; may be deleted at any time\n"); err != nil {
		return fmt.Errorf("make mirror: %w", err)
	}
	c.log.Info("made mirror", "took", time.Since(f.began), "bytes", c.size())
	return nil
}

// emptyHost turns the failure of a first fetch into none when the host has no
// default branch to fetch: there is nothing to have before the rest.
func (c *clone) emptyHost(ctx context.Context, failed error) error {
	if errors.Is(failed, errTooBig) || ctx.Err() != nil {
		return failed
	}
	out, err := c.git(ctx, job{remote: true, outside: true, args: []string{"ls-remote", "--quiet", "origin", "HEAD"}})
	if err != nil {
		return c.remoteError(err)
	}
	if len(bytes.TrimSpace(out)) == 0 {
		return nil
	}
	return c.remoteError(failed)
}

// lay makes an empty mirror where there is none or half of one.
func (c *clone) lay(ctx context.Context) error {
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("remove half-made mirror: %w", err)
	}
	if _, err := c.git(ctx, job{outside: true, args: []string{"init", "--quiet", "--bare", "--template=", "--initial-branch=signalbox-none", "--", c.dir}}); err != nil {
		return fmt.Errorf("make mirror: %w", err)
	}
	if err := os.WriteFile(c.config(), []byte(c.configText()), 0o644); err != nil {
		return fmt.Errorf("make mirror: %w", err)
	}
	return nil
}

func (c *clone) config() string { return filepath.Join(c.dir, "config") }

// configText is all that the mirror's configuration says. Git can be told
// there to run any program, so a mirror that says anything else is not used.
func (c *clone) configText() string {
	text := "[core]\n\trepositoryformatversion = 1\n\tfilemode = true\n\tbare = true\n" +
		"[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"
	if c.m.cfg.Filter != "off" {
		// What a partial clone is, without the clone. The address is not in
		// it: each run of git is told the one that holds at that moment.
		text += "[extensions]\n\tpartialClone = origin\n" +
			"[remote \"origin\"]\n\tpromisor = true\n\tpartialclonefilter = " + c.m.cfg.Filter + "\n"
	}
	return text
}

// marker is the file that says that the first fetch ended well.
func (c *clone) marker() string { return filepath.Join(c.dir, "signalbox-ready") }

// whole reports whether the mirror is there, as we made it, and was fetched
// once.
func (c *clone) whole() bool {
	if config, err := os.ReadFile(c.config()); err != nil || string(config) != c.configText() {
		return false
	}
	for _, name := range []string{c.marker(), filepath.Join(c.dir, "HEAD"), filepath.Join(c.dir, "objects")} {
		if _, err := os.Stat(name); err != nil {
			return false
		}
	}
	return true
}

func appendFile(name, text string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// size is what the mirror takes on disk, in bytes: its packs, half-fetched
// ones too. Loose objects are few (see tidy) and not counted.
func (c *clone) size() int64 {
	var total int64
	entries, _ := os.ReadDir(filepath.Join(c.dir, "objects", "pack"))
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			total += info.Size()
		}
	}
	return total
}
