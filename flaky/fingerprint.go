package flaky

import (
	"crypto/sha256"
	"encoding/binary"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Fingerprint tells whether two failures are alike: it is made of the error's
// type and the first line of its message, without what changes from run to run.
// The first byte is the version of the algorithm, the others are a hash, so that
// an int64 holds it. Zero is a failure without any text.
//
// Fingerprints of two versions are never equal. Whoever changes what
// [Describe] does raises the version; quarantined tests then block once and are
// learnt again.
type Fingerprint int64

// fingerprintVersion is the version of the algorithm.
const fingerprintVersion = 1

// Version is the version of the algorithm that made f; 0 without text.
func (f Fingerprint) Version() int { return int(f >> 56) }

// Failure is what a report says about why a test failed.
type Failure struct {
	Type    string // class of the error, or ""
	Message string // the message, or ""
	Text    string // the body: stack, output, or ""
}

// Describe makes of a failure its fingerprint and the line that is shown for
// it: the same for all failures of one fingerprint.
func Describe(f Failure) (Fingerprint, string) {
	line, kind := f.line(), clean(firstLine(f.Type))
	summary := Normalize(line)
	switch {
	case line == "":
		summary = Normalize(kind)
	case !saysNothing(kind) && !strings.Contains(line, kind):
		summary = Normalize(kind) + ": " + summary
	}
	if summary == "" {
		return 0, ""
	}
	sum := sha256.Sum256([]byte(summary))
	hash := binary.BigEndian.Uint64(sum[:]) >> 8
	return Fingerprint(fingerprintVersion<<56 | hash), summary
}

// line is the first line that says something, of the message or else of the
// text. Some reporters write the same word into every message ("Failed") and
// the reason into the text.
func (f Failure) line() string {
	for _, text := range []string{f.Message, f.Text} {
		for n := 0; text != "" && n < 50; n++ {
			var line string
			line, text, _ = strings.Cut(text, "\n")
			if line = clean(line); !saysNothing(line) {
				return line
			}
		}
	}
	return clean(firstLine(f.Message))
}

// maxLine bounds the part of a line that is looked at, in bytes.
const maxLine = 2000

// clean drops ANSI sequences, other control characters and outer blanks.
func clean(line string) string {
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "")
	}
	line = ansi.ReplaceAllString(line, "")
	line = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, line)
	return strings.TrimSpace(line)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// ansi matches terminal sequences: colours, cursor, titles.
var ansi = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])`)

// StripANSI drops terminal sequences from a text.
func StripANSI(text string) string {
	if !strings.Contains(text, "\x1b") {
		return text
	}
	return ansi.ReplaceAllString(text, "")
}

// empty are lines that many unrelated failures begin with.
var empty = regexp.MustCompile(`^(?i:(?:test(?:s)? )?fail(?:ed|ure)?[.!:]?|error[.!:]?|no message|null|none|undefined|` +
	`traceback \(most recent call last\):|=== (?:run|cont|name|pause)\b.*|--- fail:.*|fail\b\s+\S+\s+[\d.]+s|fail:? \S+|` +
	`exit status \d+|assertionerror:?|assertion failed[.!:]?|(?:org\.\S+|java\.lang)\.assertion\w*error:?|[-=*_#~>. ]*)$`)

func saysNothing(line string) bool { return empty.MatchString(line) }

// replacement is one kind of thing that changes from run to run.
type replacement struct {
	what *regexp.Regexp
	with string
}

// replacements are made in this order: what holds others comes first.
var replacements = []replacement{
	{regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "<uuid>"},
	{regexp.MustCompile(`\b\d{4}[-/]\d{2}[-/]\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2}))?)?`), "<time>"},
	{regexp.MustCompile(`\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?(?:\d{1,2} )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (?:\d{1,2}|\d{4})(?:,? \d{4})?(?: \d{2}:\d{2}(?::\d{2})?)?(?: (?:UTC|GMT)\b)?`), "<time>"},
	{regexp.MustCompile(`\b\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?\b`), "<time>"},
	{regexp.MustCompile(`\b[a-z][a-z0-9+.-]*://[^\s'"<>)\]]+`), "<url>"},
	{regexp.MustCompile(`\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b|\[[0-9a-fA-F:]*:[0-9a-fA-F:]*\](?::\d+)?|\blocalhost:\d+\b`), "<host>"},
	{regexp.MustCompile(`(?:\b[A-Za-z]:|~|\.{1,2})?(?:[/\\][\w.@+~%$-]+){2,}[/\\]?(?::\d+){0,2}`), "<path>"},
	{regexp.MustCompile(`\b[\w.-]+(?:[/\\][\w.@+~%$-]+)+\.\w{1,5}(?::\d+){0,2}\b`), "<path>"},
	{regexp.MustCompile(`(?i)@?\b0x[0-9a-f]+\b|@[0-9a-f]{4,16}\b`), "<address>"},
	{regexp.MustCompile(`(?i)\b\d+(?:[.,]\d+)?(?:h\d+m\d+(?:\.\d+)?s|m\d+(?:\.\d+)?s| ?(?:ns|us|µs|ms|s|m|h|sec|secs|min|mins|milliseconds?|microseconds?|nanoseconds?|seconds?|minutes?|hours?))\b`), "<duration>"},
}

// hexWord matches what may be a hash or an id in hexadecimal digits. It is one
// only with a digit in it: "deadbeef" and "feedback" are words.
var hexWord = regexp.MustCompile(`(?i)\b[0-9a-f]{8,}\b`)

var digits = regexp.MustCompile(`\d+(?:[.,]\d+)*`)

// summaryLength is how many characters of a normalised line count.
const summaryLength = 200

// Normalize replaces in one line what changes from run to run: colours, dates,
// ids, addresses, paths, durations and numbers.
func Normalize(line string) string {
	line = clean(line)
	for _, r := range replacements {
		line = r.what.ReplaceAllString(line, r.with)
	}
	line = hexWord.ReplaceAllStringFunc(line, func(word string) string {
		if strings.ContainsAny(word, "0123456789") {
			return "<hex>"
		}
		return word
	})
	line = digits.ReplaceAllString(line, "<n>")
	line = strings.Join(strings.Fields(line), " ")
	if utf8.RuneCountInString(line) > summaryLength {
		line = string([]rune(line)[:summaryLength])
	}
	return line
}
