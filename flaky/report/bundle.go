package report

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"signalbox/flaky"
)

// Meta is what a bundle says about itself in meta.json, as far as it is used.
// The analytics CLI writes it; fields that it adds are ignored.
type Meta struct {
	CLIVersion string            `json:"cli_version"`
	Org        string            `json:"org"`
	Variant    string            `json:"variant"`
	Envs       map[string]string `json:"envs"` // only those that [Facts] looks at
	Repo       struct {
		Repo struct {
			Host, Owner, Name string
		} `json:"repo"`
		URL         string `json:"repo_url"`
		HeadSHA     string `json:"repo_head_sha"`
		HeadBranch  string `json:"repo_head_branch"`
		CommitEpoch int64  `json:"repo_head_commit_epoch"`
	} `json:"repo"`
	Tags []struct {
		Key, Value string
	} `json:"tags"`
	FileSets []struct {
		Files []struct {
			Path         string `json:"path"`
			OriginalPath string `json:"original_path"`
			RelativePath string `json:"original_path_rel"`
		} `json:"files"`
	} `json:"file_sets"`
}

// sent is what the bundle says of the job in which it was made, on top of what is
// known of its upload. What was checked out is what git says; CI may have meant
// another commit.
func (m Meta) sent(known flaky.Sent) flaky.Sent {
	known.Facts = FactsOf(func(name string) string { return m.Envs[name] })
	if isCommit(m.Repo.HeadSHA) {
		known.Commit = strings.ToLower(m.Repo.HeadSHA)
	}
	for _, commit := range []*string{&known.Commit, &known.Head, &known.Base} {
		if !isCommit(*commit) {
			*commit = ""
		}
	}
	known.Branch = or(known.Branch, strings.TrimPrefix(m.Repo.HeadBranch, "refs/heads/"))
	known.Variant = or(known.Variant, m.Variant)
	known.Attempt = max(known.Attempt, 1)
	known.Fork = known.Fork || !known.Trusted // who has no token may say what they like
	return known
}

func isCommit(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(text, "0123456789abcdefABCDEF") == ""
}

// files are the reports that the bundle says it has, by their names in it.
func (m Meta) files() map[string]string {
	all := map[string]string{}
	for _, s := range m.FileSets {
		for _, f := range s.Files {
			if strings.HasPrefix(f.Path, "junit/") {
				all[f.Path] = or(f.RelativePath, f.OriginalPath)
			}
		}
	}
	return all
}

// Limits of a bundle.
const (
	maxMeta   = 16 << 20
	maxOwners = 3 << 20 // GitHub's limit of a CODEOWNERS file
	maxFiles  = 20_000
)

// ErrBundle says that an upload is no bundle, or one that tries something.
var ErrBundle = errors.New("not a bundle of test results")

// Bundle is what was in a bundle besides cases.
type Bundle struct {
	Meta   Meta
	Owners []byte // CODEOWNERS, or nil
	Notes  Notes
}

// ScanBundle reads the tar of a bundle, already decompressed. meta is called
// first, then nextFile before each report with the name that it had where the
// tests ran, and each with every case; the reports are also written to digest. Other files than the five known ones are
// left out and noted; links, devices and paths that lead anywhere else make the
// whole bundle invalid. The reports of single test runners (internal.bin) and
// Bazel's events are read only where there are no JUnit reports, as they say the
// same again.
func ScanBundle(r io.Reader, o Options, meta func(Meta) error, digest io.Writer, nextFile func(name string), each func(*Case) error) (Bundle, error) {
	s := &bundle{options: o, digest: digest, nextFile: nextFile, each: each, archive: tar.NewReader(r)}
	if err := s.meta(); err != nil {
		return s.Bundle, err
	}
	if err := meta(s.Meta); err != nil {
		return s.Bundle, err
	}
	s.missing = s.Meta.files()
	s.junit = len(s.missing) > 0
	for n := 0; ; n++ {
		h, err := s.archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			s.absent()
			return s.Bundle, nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			s.Notes.add(Truncated, "")
			s.absent()
			return s.Bundle, nil
		case err != nil && (errors.Is(err, ErrTooLarge) || errors.Is(err, ErrDamaged)):
			return s.Bundle, err
		case err != nil:
			return s.Bundle, fmt.Errorf("%w: %v", ErrBundle, err)
		case n >= maxFiles:
			return s.Bundle, fmt.Errorf("%w: more than %d files", ErrBundle, maxFiles)
		}
		if err := s.entry(h); err != nil {
			return s.Bundle, err
		}
	}
}

type bundle struct {
	Bundle
	options  Options
	digest   io.Writer
	nextFile func(string)
	each     func(*Case) error
	archive  *tar.Reader
	missing  map[string]string
	junit    bool
	read     bool // some report
}

// meta reads meta.json, which comes first.
func (s *bundle) meta() error {
	h, err := s.archive.Next()
	if err != nil && (errors.Is(err, ErrTooLarge) || errors.Is(err, ErrDamaged)) {
		return err
	}
	if err != nil || h.Name != "meta.json" || h.Typeflag != tar.TypeReg {
		return fmt.Errorf("%w: meta.json is not its first file", ErrBundle)
	}
	content, err := io.ReadAll(io.LimitReader(s.archive, maxMeta+1))
	if err != nil || len(content) > maxMeta {
		return fmt.Errorf("%w: meta.json is cut off or has more than 16 MiB", ErrBundle)
	}
	if err := json.Unmarshal(content, &s.Meta); err != nil {
		return fmt.Errorf("%w: meta.json: %v", ErrBundle, err)
	}
	for name := range s.Meta.Envs {
		if !KnownVariable(name) {
			delete(s.Meta.Envs, name)
		}
	}
	return nil
}

// entry reads one file.
func (s *bundle) entry(h *tar.Header) error {
	name := strings.TrimPrefix(h.Name, "./")
	if h.Typeflag == tar.TypeDir && inside(strings.TrimSuffix(name, "/")) {
		return nil
	}
	if h.Typeflag != tar.TypeReg || !inside(name) {
		return fmt.Errorf("%w: %.100q is no plain file within it", ErrBundle, h.Name)
	}
	number, isJUnit := strings.CutPrefix(name, "junit/")
	isJUnit = isJUnit && count([]byte(number)) >= 0
	var notes Notes
	var err error
	from := "" // what the file was called where the tests ran
	content := io.TeeReader(s.archive, s.digest)
	switch {
	case isJUnit:
		s.junit, s.read = true, true
		from = or(s.missing[name], name)
		s.nextFile(from)
		delete(s.missing, name)
		_, notes, err = Scan(content, s.options, s.each)
	case name == "CODEOWNERS":
		s.Owners, err = io.ReadAll(io.LimitReader(s.archive, maxOwners))
	case name == "internal.bin" && !s.junit:
		s.read = true
		s.nextFile(name)
		notes, err = ScanBinary(content, s.options, s.each)
	case name == "bazel_bep.json" && !s.read:
		s.read = true
		s.nextFile(name)
		notes, err = ScanBEP(content, s.options, true, s.each)
	case name == "internal.bin", name == "bazel_bep.json":
	default:
		s.Notes.add(UnknownFile, name)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		notes.add(Truncated, "")
		err = nil
	}
	s.Notes.merge(notes.in(from))
	return err
}

// inside reports whether a path stays where it is.
func inside(name string) bool {
	return name != "" && path.Clean(name) == name && !path.IsAbs(name) && name != ".." && !strings.HasPrefix(name, "../") && !strings.ContainsAny(name, "\\\x00")
}

// absent notes the reports that the bundle announces and does not have.
func (s *bundle) absent() {
	for _, name := range s.missing {
		s.Notes.add(Missing, name)
	}
	if !s.read && len(s.missing) == 0 {
		s.Notes.add(Empty, "")
	}
}
