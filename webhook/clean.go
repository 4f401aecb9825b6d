package webhook

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The most that is kept of a text from outside, in characters. What the inbox
// stores stays small however large a payload is.
const (
	maxTitle  = 256 // GitHub's own limit of a title
	maxName   = 512 // of a check or a status
	maxLabel  = 100
	maxLabels = 100
	maxURL    = 1024
	maxBranch = 255 // bytes
	maxLogin  = 100
)

// line makes a text one line: control characters (NUL and line breaks among
// them) become spaces, and what is longer than limit is cut.
func line(text string, limit int) string {
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || c == '\u2028' || c == '\u2029' {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "\uFFFD"))
	return cut(strings.TrimSpace(text), limit)
}

// cut keeps the first limit characters.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for i := range text {
		if limit == 0 {
			return text[:i]
		}
		limit--
	}
	return text
}

// commit is a commit's name in lower case, "" if it is none. Sixty-four
// digits are those of repositories that use SHA-256.
func commit(text string) string {
	if len(text) != 40 && len(text) != 64 {
		return ""
	}
	text = strings.ToLower(text)
	if strings.Trim(text, "0123456789abcdef") != "" {
		return ""
	}
	return text
}

// existing is a commit, "" also for the row of zeros that means none.
func existing(text string) string {
	name := commit(text)
	if strings.Trim(name, "0") == "" {
		return ""
	}
	return name
}

// branch is the branch that a ref names, "" if it is another kind of ref or
// nothing that git would take. A name is never cut: half of one is another.
func branch(ref string) string {
	name, ok := strings.CutPrefix(ref, "refs/heads/")
	if !ok || !validBranch(name) {
		return ""
	}
	return name
}

// validBranch holds back what git refuses as a name and what is dangerous as
// an argument; git itself has the last word on the rest.
func validBranch(name string) bool {
	return name != "" && len(name) <= maxBranch && utf8.ValidString(name) &&
		name[0] != '-' && name[0] != '/' && !strings.Contains(name, "..") &&
		!strings.ContainsFunc(name, func(c rune) bool {
			return c <= ' ' || c == 0x7f || strings.ContainsRune(`~^:?*[\`, c)
		})
}

// link is a web address, "" for anything else: it becomes a link on pages and
// in comments.
func link(text string) string {
	if len(text) > maxURL {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return ""
	}
	return u.String()
}
