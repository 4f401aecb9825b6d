package targets

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Files are where a repository keeps its rules, below its root; the first that
// exists counts.
var Files = []string{".signalbox.yaml", ".github/signalbox.yaml"}

// maxRules bounds a file with rules, in bytes.
const maxRules = 1 << 20

// Rules say which targets a changed file impacts. Patterns are globs of paths
// from the root of the repository, with ** for any number of folders; one that
// names a folder means all that is in it. In this order:
//
//  1. a file that Everything matches impacts everything;
//  2. one that Ignore matches impacts nothing;
//  3. else it impacts each target with a pattern that matches, and each folder
//     above it that Folders matches, by its path;
//  4. one for which there is none of these does what Otherwise says.
type Rules struct {
	Everything []string            `yaml:"everything"`
	Ignore     []string            `yaml:"ignore"`
	Targets    map[string][]string `yaml:"targets"`
	Folders    []string            `yaml:"folders"`
	// Otherwise is "everything", which "" is too, "nothing", or the name of a
	// target.
	Otherwise string `yaml:"otherwise"`
	// Source is the file that the rules are from, "" if none: whoever changes
	// the rules impacts everything.
	Source string `yaml:"-"`
}

// ErrNoRules is that a file has no rules.
var ErrNoRules = errors.New("there is no section impacted_targets")

// ReadRules reads the section impacted_targets of a file. An error names the
// line.
func ReadRules(path string, from io.Reader) (Rules, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxRules+1))
	if err != nil {
		return Rules{}, fmt.Errorf("read %s: %w", path, err)
	}
	if len(text) > maxRules {
		return Rules{}, fmt.Errorf("%s is larger than %d MiB", path, maxRules>>20)
	}
	var r Rules
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return Rules{}, fmt.Errorf("%s is no YAML: %s", path, yaml.FormatError(err, false, true))
	}
	// The rest of the file is for others. In the section nothing is ignored: a
	// misspelt name would silently impact nothing.
	section, err := sectionPath.FilterFile(file)
	switch {
	case yaml.IsNotFoundNodeError(err), err == nil && section.Type() == ast.NullType, len(strings.TrimSpace(string(text))) == 0:
		return Rules{}, fmt.Errorf("%s: %w", path, ErrNoRules)
	case err == nil:
		err = yaml.NodeToValue(section, &r, yaml.Strict())
	}
	if err != nil {
		return Rules{}, fmt.Errorf("%s: %s", path, yaml.FormatError(err, false, true))
	}
	r.Source = path
	if err := r.Check(); err != nil {
		return Rules{}, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// sectionPath is where the rules stand in their file.
var sectionPath = func() *yaml.Path {
	p, err := yaml.PathString("$.impacted_targets")
	if err != nil {
		panic(err) // Unreachable
	}
	return p
}()

// Check reports every pattern that is none.
func (r Rules) Check() error {
	var wrong []error
	check := func(where string, patterns []string) {
		for _, p := range patterns {
			if p == "" || strings.HasPrefix(p, "/") || !doublestar.ValidatePattern(p) {
				wrong = append(wrong, fmt.Errorf("%s: %q is no pattern for paths from the root of the repository, such as web/** or libs/*", where, p))
			}
		}
	}
	check("everything", r.Everything)
	check("ignore", r.Ignore)
	check("folders", r.Folders)
	for _, name := range slices.Sorted(maps.Keys(r.Targets)) {
		if name == "" {
			wrong = append(wrong, errors.New("targets: one has no name"))
		}
		check("targets."+name, r.Targets[name])
	}
	return errors.Join(wrong...)
}

// Empty reports whether there is no rule by which a file could impact anything.
func (r Rules) Empty() bool {
	return len(r.Everything) == 0 && len(r.Targets) == 0 && len(r.Folders) == 0 && r.Otherwise == ""
}

// Special does what the first two rules say of a file, and what holds for the
// file with the rules. It reports whether that is all there is to say.
func (r Rules) Special(file string, to *Set) bool {
	switch {
	case file == r.Source || slices.Contains(Files, file):
		to.Everything(file + " changed, which says which targets a file impacts")
	case matches(r.Everything, file):
		to.Everything(file + " changed")
	case !matches(r.Ignore, file):
		return false
	}
	return true
}

// Named does what the third rule says. It reports whether that is anything.
func (r Rules) Named(file string, to *Set) bool {
	found := false
	for name, patterns := range r.Targets {
		if matches(patterns, file) {
			to.Add(name, file)
			found = true
		}
	}
	for i, b := range []byte(file) {
		if b != '/' {
			continue
		}
		folder := file[:i]
		for _, p := range r.Folders {
			if ok, _ := doublestar.Match(strings.TrimSuffix(p, "/"), folder); ok {
				to.Add(folder, file)
				found = true
				break
			}
		}
	}
	return found
}

// Rest does what the last rule says.
func (r Rules) Rest(file string, to *Set) {
	switch r.Otherwise {
	case "", "everything":
		to.Everything(file + " changed, and no rule knows it")
	case "nothing":
	default:
		to.Add(r.Otherwise, file)
	}
}

// Impacted does what the rules say of a file.
func (r Rules) Impacted(file string, to *Set) {
	if !r.Special(file, to) && !r.Named(file, to) {
		r.Rest(file, to)
	}
}

// matches reports whether a pattern matches a file, or a folder that it is in.
func matches(patterns []string, file string) bool {
	for _, p := range patterns {
		p = strings.TrimSuffix(p, "/")
		if ok, _ := doublestar.Match(p, file); ok {
			return true
		}
		if ok, _ := doublestar.Match(p+"/**", file); ok {
			return true
		}
	}
	return false
}
