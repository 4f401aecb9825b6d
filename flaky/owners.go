package flaky

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Dialect is how a host reads CODEOWNERS.
type Dialect string

// The dialects.
const (
	GitHub Dialect = "github"
	GitLab Dialect = "gitlab"
)

// Owners says who owns which file of a repository, by its CODEOWNERS. The zero
// value owns nothing.
type Owners struct {
	sections []section
}

// section is a part of GitLab's file, of which each has owners of its own. For
// GitHub there is one.
type section struct {
	name     string
	defaults []string
	rules    []rule
}

// rule is a line: a pattern and the owners of what it matches.
type rule struct {
	pattern pattern
	owners  []string
	exclude bool // GitLab's "!": the section has no owner for it
}

// OwnersProblem is a line that is left out.
type OwnersProblem struct {
	Line int // from 1
	Err  error
}

func (p OwnersProblem) Error() string { return fmt.Sprintf("line %d: %v", p.Line, p.Err) }

// Bounds of a file. Lines beyond them are problems.
const (
	maxRules       = 20_000
	maxOwnersLine  = 4000
	maxOwnersShown = 50 // problems that are reported
)

// ParseOwners reads CODEOWNERS. The last rule that matches a file counts. A line
// that is not valid is left out, and the others count, as on GitHub
// (docs.github.com, "About code owners") and GitLab (docs.gitlab.com, "Syntax of
// CODEOWNERS file").
func ParseOwners(text string, d Dialect) (*Owners, []OwnersProblem) {
	o := &Owners{sections: []section{{}}}
	var problems []OwnersProblem
	rules, current := 0, 0
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		var err error
		switch heading := d == GitLab && (line[0] == '[' || strings.HasPrefix(line, "^[")); {
		case len(line) > maxOwnersLine:
			err = fmt.Errorf("has more than %d bytes", maxOwnersLine)
		case heading:
			current, err = o.heading(line)
		case rules == maxRules:
			err = fmt.Errorf("there are more than %d rules", maxRules)
		default:
			var r rule
			if r, err = parseRule(line, d); err == nil {
				rules++
				o.sections[current].rules = append(o.sections[current].rules, r)
			}
		}
		if err != nil && len(problems) < maxOwnersShown {
			problems = append(problems, OwnersProblem{Line: n + 1, Err: err})
		}
	}
	return o, problems
}

// headings are those of GitLab: optional or not, a name, approvals, owners.
var headings = regexp.MustCompile(`^\^?\[([^\]]+)\](?:\[\d+\])?(?:\s+(.*))?$`)

// heading begins a section, or goes on with one of that name.
func (o *Owners) heading(line string) (int, error) {
	m := headings.FindStringSubmatch(line)
	if m == nil || strings.TrimSpace(m[1]) == "" {
		return 0, errors.New("is not the heading of a section")
	}
	name := strings.ToLower(strings.TrimSpace(m[1]))
	i := slices.IndexFunc(o.sections, func(s section) bool { return s.name == name })
	if i < 0 {
		o.sections = append(o.sections, section{name: name})
		i = len(o.sections) - 1
	}
	owners, _ := parseNames(m[2], GitLab)
	o.sections[i].defaults = append(o.sections[i].defaults, owners...)
	return i, nil
}

func parseRule(line string, d Dialect) (rule, error) {
	text, rest := cutPattern(line)
	var r rule
	if d == GitLab {
		text, r.exclude = strings.CutPrefix(text, "!")
	} else if i := strings.IndexByte(rest, '#'); i >= 0 {
		rest = rest[:i] // GitHub allows a comment behind the owners
	}
	var err error
	if r.pattern, err = parsePattern(text, d); err != nil {
		return r, err
	}
	r.owners, err = parseNames(rest, d)
	return r, err
}

// cutPattern cuts a line at the first blank that has no backslash before it.
func cutPattern(line string) (text, rest string) {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case ' ', '\t':
			return line[:i], line[i:]
		}
	}
	return line, ""
}

// ownerNames are what may stand for an owner: somebody's name, a team, or an
// address of electronic mail; on GitLab groups in groups and roles, too.
var ownerNames = map[Dialect]*regexp.Regexp{
	GitHub: regexp.MustCompile(`^(?:@[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)?|[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,})$`),
	GitLab: regexp.MustCompile(`^(?:@[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*|@@[A-Za-z]+|[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,})$`),
}

// parseNames reads owners. On GitHub one that is not valid makes the line
// invalid; GitLab takes those that are.
func parseNames(text string, d Dialect) ([]string, error) {
	var owners []string
	for _, name := range strings.Fields(text) {
		if ownerNames[d].MatchString(name) {
			owners = append(owners, name)
		} else if d == GitHub {
			return nil, fmt.Errorf("%.100q is not an owner", name)
		}
	}
	return owners, nil
}

// Of is who owns a file, given by its path in the repository with slashes: the
// owners of the last rule that matches, on GitLab of each section. None: nil.
func (o *Owners) Of(path string) []string {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	var all []string
	for i := range o.sections {
		for _, name := range o.sections[i].of(parts) {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

func (s *section) of(parts []string) []string {
	for _, r := range slices.Backward(s.rules) {
		if !r.pattern.matches(parts) {
			continue
		}
		switch {
		case r.exclude:
			return nil
		case len(r.owners) == 0:
			return s.defaults
		}
		return r.owners
	}
	return nil
}

// pattern is a path with wildcards, part by part. "**" stands for any number of
// parts, none included.
type pattern []string

// anyParts is the part of a pattern that stands for any number of parts.
const anyParts = "**"

// parsePattern reads a pattern so that it matches whole paths of files alone.
func parsePattern(text string, d Dialect) (pattern, error) {
	switch {
	case text == "" || text == "/":
		return nil, errors.New("has no pattern")
	case strings.Contains(text, "***"):
		return nil, errors.New("has three asterisks in a row")
	case d == GitHub && strings.ContainsAny(text, "![]#"):
		// docs.github.com: these do not work in CODEOWNERS.
		return nil, errors.New("has a pattern with one of ! [ ] #, which mean nothing here")
	}
	parts := strings.Split(text, "/")
	folder := len(parts) > 1 && parts[len(parts)-1] == ""
	if folder {
		parts = parts[:len(parts)-1]
	}
	switch {
	case parts[0] == "":
		parts = parts[1:]
	case d == GitLab, len(parts) == 1: // anywhere
		parts = append([]string{anyParts}, parts...)
	}
	last := parts[len(parts)-1]
	if folder && last == anyParts {
		parts = append(parts, "*") // any folder, which is not the root
	}
	switch {
	case folder || last == anyParts && len(parts) > 1 && d == GitHub:
		parts = append(parts, anyParts, "*") // what is in it
	case d == GitHub && last != "*" && last != anyParts:
		parts = append(parts, anyParts) // a file, or what is in the folder of that name
	}
	return parts, nil
}

// matches reports whether a path matches. It takes a time that grows with the
// product of the two lengths at most: only the last "**" is ever tried again.
func (p pattern) matches(path []string) bool {
	return wild(p, path, func(part string) bool { return part == anyParts }, func(p []string, name string) (int, bool) {
		return 1, len(p) > 0 && matchPart(p[0], name)
	})
}

// wild matches a pattern in which a star stands for any number of items. one
// matches the next item with the beginning of a pattern, which may be empty, and
// says how much of the pattern that took. The work is bounded by the product of
// the two lengths.
func wild[P, T any](pattern []P, text []T, star func(P) bool, one func([]P, T) (step int, ok bool)) bool {
	pi, i := 0, 0
	retry, from := -1, 0
	for i < len(text) {
		if pi < len(pattern) && star(pattern[pi]) {
			retry, from = pi, i
			pi++
			continue
		}
		switch step, ok := one(pattern[pi:], text[i]); {
		case ok:
			pi += step
			i++
		case retry >= 0:
			from++
			pi, i = retry+1, from
		default:
			return false
		}
	}
	for pi < len(pattern) && star(pattern[pi]) {
		pi++
	}
	return pi == len(pattern)
}

// matchPart matches one part: "*" stands for any characters, "?" for one, and a
// backslash takes the meaning from what follows. A part with a class of
// characters ("[a-z]", on GitLab) matches as path.Match has it.
func matchPart(pattern, name string) bool {
	return wild([]rune(pattern), []rune(name), func(c rune) bool { return c == '*' }, matchOne)
}

// matchOne matches one character, and says how much of the pattern that took.
func matchOne(p []rune, c rune) (step int, ok bool) {
	switch {
	case len(p) == 0 || p[0] == '*':
		return 0, false
	case p[0] == '?':
		return 1, true
	case p[0] == '\\' && len(p) > 1:
		return 2, p[1] == c
	case p[0] == '[':
		if end := slices.Index(p[1:], ']'); end > 0 {
			return end + 2, inClass(p[1:end+1], c)
		}
	}
	return 1, p[0] == c
}

// inClass matches a character with what stands between [ and ].
func inClass(class []rune, c rune) bool {
	not := class[0] == '!' || class[0] == '^'
	if not {
		class = class[1:]
	}
	for i := 0; i < len(class); i++ {
		if i+2 < len(class) && class[i+1] == '-' {
			if class[i] <= c && c <= class[i+2] {
				return !not
			}
			i += 2
		} else if class[i] == c {
			return !not
		}
	}
	return not
}
