package pgserver

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
	"slices"
	"strconv"
	"strings"
)

// version is a Postgres version. The minor one is 0 for betas.
type version struct{ major, minor int }

// oldest is the first major version that we work with.
const oldest = 14

func (v version) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

// binaries is a folder with Postgres's programs.
type binaries struct {
	dir     string
	version version
	build   string // the whole version line: two builds of one version differ here
}

// systemFolders are where packages install Postgres: Debian, Red Hat, Alpine,
// Homebrew on both kinds of Mac, Postgres.app.
var systemFolders = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/libexec/postgresql*",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// Find returns the folder of the Postgres programs that Start would use for
// new data: the first on PATH, else the newest in the usual folders, of those
// that are version 14 or newer. The error is ErrNotFound if there are none.
func Find() (bin string, err error) {
	b, err := find(places(os.Getenv("PATH"), systemFolders), 0)
	return b.dir, err
}

// places lists folders that may hold the programs, best first: those of PATH
// in its order, then for each pattern what it matches, newest version first.
func places(path string, patterns []string) []string {
	var dirs []string
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) { // as the shell's "." would be: not from wherever we happen to be
			dirs = append(dirs, dir)
		}
	}
	for _, pattern := range patterns {
		matches, _ := filepath.Glob(pattern)
		slices.SortStableFunc(matches, func(a, b string) int {
			return slices.Compare(numbersIn(b), numbersIn(a))
		})
		dirs = append(dirs, matches...)
	}
	return dirs
}

var digits = regexp.MustCompile(`\d+`)

// numbersIn makes paths comparable by version: 9.6 comes before 14.
func numbersIn(path string) []int {
	var ns []int
	for _, d := range digits.FindAllString(path, -1) {
		n, _ := strconv.Atoi(d)
		ns = append(ns, n)
	}
	return ns
}

// find returns the first of the folders whose programs fit: of the major
// version asked for, or with 0 of any that is new enough.
func find(dirs []string, major int) (binaries, error) {
	var others []string
	for _, dir := range dirs {
		b, err := inspect(dir)
		if err != nil {
			continue
		}
		if b.version.major >= oldest && (major == 0 || major == b.version.major) {
			return b, nil
		}
		others = append(others, fmt.Sprintf("%s in %s", b.version, dir))
	}
	if len(others) > 0 {
		return binaries{}, fmt.Errorf("%w (found %s)", ErrNotFound, strings.Join(slices.Compact(others), ", "))
	}
	return binaries{}, ErrNotFound
}

// inspect looks for the two programs that we need, and asks their version.
func inspect(dir string) (binaries, error) {
	for _, program := range []string{"initdb", "postgres"} {
		info, err := os.Stat(filepath.Join(dir, program))
		if err != nil {
			return binaries{}, err
		}
		if info.IsDir() || info.Mode()&0o111 == 0 {
			return binaries{}, fmt.Errorf("%s in %s is not a program", program, dir)
		}
	}
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return binaries{}, fmt.Errorf("ask version of Postgres in %s: %w", dir, err)
	}
	line := strings.TrimSpace(string(out))
	v, err := parseVersion(line)
	return binaries{dir: dir, version: v, build: line}, err
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) (\d+)(?:\.(\d+))?`)

// parseVersion reads what postgres --version prints, such as
// "postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)" or "… 18beta1".
func parseVersion(line string) (version, error) {
	m := versionLine.FindStringSubmatch(line)
	if m == nil {
		return version{}, fmt.Errorf("no Postgres version in %q", line)
	}
	major, err := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(cmp.Or(m[2], "0"))
	return version{major, minor}, err
}

// chooseBinaries finds or fetches programs. Existing data decides which major
// version they must have.
func chooseBinaries(ctx context.Context, cfg Config, cache string, f *folder, log *slog.Logger) (binaries, error) {
	major, err := f.majorVersion()
	if err != nil {
		return binaries{}, err
	}
	fetched := filepath.Join(cache, "postgres-*", "bin")
	dirs := places(os.Getenv("PATH"), append(slices.Clone(systemFolders), fetched))
	if cfg.BinDir != "" {
		if _, err := inspect(cfg.BinDir); err != nil {
			return binaries{}, fmt.Errorf("look for Postgres in %s: %w", cfg.BinDir, err)
		}
		dirs = []string{cfg.BinDir}
	}
	b, err := find(dirs, major)
	if err == nil {
		return b, nil
	}
	if other, otherErr := find(dirs, 0); major != 0 && otherErr == nil {
		return binaries{}, fmt.Errorf("%w: %s was made by Postgres %d, and this machine has %s (%s): "+
			"install Postgres %d to use it, or move the data with its pg_dump or pg_upgrade",
			ErrVersion, f.data(), major, other.version, other.dir, major)
	}
	if cfg.BinDir != "" {
		return binaries{}, err
	}
	log.Info("fetching postgres", "reason", err)
	b, fetchErr := fetch(ctx, cfg.FetchURL, major, cache)
	if fetchErr != nil {
		return binaries{}, errors.Join(err, fmt.Errorf("fetch Postgres: %w", fetchErr),
			errors.New("install Postgres 14 or newer (Debian: apt-get install postgresql), or set DATABASE_URL"))
	}
	return b, nil
}
