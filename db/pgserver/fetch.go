package pgserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// fetchable are the builds that can be fetched, by major version.
var fetchable = map[int]embedded.PostgresVersion{
	14: embedded.V14, 15: embedded.V15, 16: embedded.V16, 17: embedded.V17, 18: embedded.V18,
}

// fetchNew is the major version that new data gets.
const fetchNew = 17

// fetch downloads Postgres's programs into the cache. embedded-postgres does
// the work: it knows the builds and checks their sums. It can only do so by
// starting a server as well, which fails as root; that does not matter, the
// programs are there by then.
func fetch(ctx context.Context, from string, major int, cache string) (binaries, error) {
	v, ok := fetchable[cmp.Or(major, fetchNew)]
	if !ok {
		return binaries{}, fmt.Errorf("no build of Postgres %d", major)
	}
	tmp, err := os.MkdirTemp(cache, unfinished)
	if err != nil {
		return binaries{}, err
	}
	result := make(chan error, 1)
	var b binaries
	// embedded-postgres knows no context. When ours ends we leave it to finish
	// in the background: it owns tmp, and nothing else.
	go func() {
		err := download(from, v, tmp)
		if err == nil && ctx.Err() == nil {
			b, err = install(tmp, filepath.Join(cache, "postgres-"+string(v)))
		}
		_ = os.RemoveAll(tmp) // what stays is swept later
		result <- err
	}()
	select {
	case err := <-result:
		return b, err
	case <-ctx.Done():
		return binaries{}, ctx.Err()
	}
}

// download leaves the programs in tmp/run/bin.
func download(from string, v embedded.PostgresVersion, tmp string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	log := &strings.Builder{}
	config := embedded.DefaultConfig().Version(v).Port(uint32(port)).Password(rand.Text()).
		CachePath(tmp).RuntimePath(filepath.Join(tmp, "run")).DataPath(filepath.Join(tmp, "data")).
		StartTimeout(time.Minute).Logger(log)
	if from != "" {
		config = config.BinaryRepositoryURL(strings.TrimSuffix(from, "/"))
	}
	e := embedded.NewDatabase(config)
	startErr := e.Start()
	if startErr == nil {
		return e.Stop()
	}
	if _, err := os.Stat(filepath.Join(tmp, "run", "bin", "postgres")); err != nil {
		return startErr
	}
	return nil
}

// install moves the programs to their place, readable for the user that will
// run them. Another process may have been faster; then its copy is used.
func install(tmp, place string) (binaries, error) {
	run := filepath.Join(tmp, "run")
	if err := makeReadable(run); err != nil {
		return binaries{}, err
	}
	if err := os.Rename(run, place); err != nil {
		if b, other := inspect(filepath.Join(place, "bin")); other == nil {
			return b, nil
		}
		return binaries{}, err
	}
	return inspect(filepath.Join(place, "bin"))
}

// makeReadable undoes a strict umask.
func makeReadable(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if d.IsDir() || mode&0o100 != 0 {
			mode |= 0o111
		}
		return os.Chmod(path, mode)
	})
}
