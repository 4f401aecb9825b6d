package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox/flaky"
)

// Format is how a report is written.
type Format string

// The formats.
const (
	JUnit  Format = "junit"
	GoTest Format = "go-test" // the JSON lines of go test -json
	CTRF   Format = "ctrf"    // common test report format, JSON
	BEP    Format = "bep"     // Bazel's build event protocol as JSON lines
	Binary Format = "binary"  // internal.bin of a bundle
)

// Outcome is how an attempt ended.
type Outcome uint8

// The outcomes. A skipped test did not run; of an attempt whose outcome is
// unknown, only that it happened is known.
const (
	Unknown Outcome = iota
	Passed
	Failed
	Skipped
)

func (o Outcome) String() string {
	return [...]string{"unknown", "passed", "failed", "skipped"}[o]
}

// Case is one test case as a report has it. A scanner uses the same one again:
// it is valid until the function that got it returns.
type Case struct {
	File, Classname, Parent, Name string
	Given                         string // id that the report has for it
	Line                          string // where the test stands in File, as written
	Variant                       string // setting that the report itself knows of, such as a browser

	// Attempt numbers attempts from 1 where the report does; else 0.
	Attempt int
	// Reruns: whoever wrote the report gives a case twice only when the test
	// ran twice. Where that is not known, two cases of one name may be two
	// tests.
	Reruns Repeats

	Outcome Outcome       // of the last attempt
	Failure flaky.Failure // of the last attempt that failed
	Earlier []Attempt     // attempts before the last, as far as one case tells

	Seconds float64   // -1 is unknown
	At      time.Time // when it began; zero is unknown
	Output  Text      // what the test printed
}

// Attempt is one earlier attempt of a case.
type Attempt struct {
	Outcome Outcome
	Failure flaky.Failure
}

// Repeats says what it means that a report has the same case twice.
type Repeats uint8

// What a repeated case means.
const (
	// Ambiguous: nobody knows. It may be two tests of one name.
	Ambiguous Repeats = iota
	// Attempts: another attempt, in the order of the report.
	Attempts
	// Silent: another attempt, and the report does not say how the ones before
	// the last ended.
	Silent
)

// Text is a text of which only the beginning and the end are kept.
type Text struct {
	Head, Tail string
	Size       int64 // bytes as they stood in the report
}

// String is what is left of the text.
func (t Text) String() string {
	if t.Tail == "" {
		return t.Head
	}
	return t.Head + "\n[…]\n" + t.Tail
}

// NoteCode says what is wrong with a report. The codes are part of the API.
type NoteCode string

// What is wrong. The first group makes a report incomplete.
const (
	Truncated    NoteCode = "TRUNCATED"
	Empty        NoteCode = "EMPTY"
	NotAReport   NoteCode = "NOT_A_REPORT"
	SeveralRoots NoteCode = "SEVERAL_ROOTS"
	Malformed    NoteCode = "MALFORMED"
	FewerCases   NoteCode = "FEWER_CASES_THAN_ANNOUNCED"
	TooMany      NoteCode = "TOO_MANY_CASES"
	SuiteFailed  NoteCode = "SUITE_FAILED"
	Missing      NoteCode = "REPORTS_MISSING"

	OtherCounts    NoteCode = "COUNTERS_DISAGREE"
	Nameless       NoteCode = "NAMELESS_CASES"
	LongNames      NoteCode = "LONG_NAMES"
	BadCharacters  NoteCode = "BAD_CHARACTERS"
	NoZone         NoteCode = "TIMES_WITHOUT_ZONE"
	BadTimes       NoteCode = "TIMES_NOT_PLAUSIBLE"
	BadDurations   NoteCode = "DURATIONS_NOT_NUMBERS"
	AmbiguousTests NoteCode = "AMBIGUOUS_TESTS"
	CachedResults  NoteCode = "CACHED_RESULTS"
	UnknownFile    NoteCode = "UNKNOWN_FILE"
	BadOwners      NoteCode = "BAD_CODEOWNERS"
)

// sentences say what a code means, to the person whose report it is. %d is how
// often, %s the first example, and {one|several} what goes with one or several.
var sentences = map[NoteCode]string{
	Truncated:      "The report is cut off: what came before is kept, the rest is missing.",
	Empty:          "The report is empty.",
	NotAReport:     "This is not a test report: %s.",
	SeveralRoots:   "Several reports stand in one file (%d more than one). All their cases are kept; upload them as files of their own.",
	Malformed:      "The report is damaged in %d {place|places}, first: %s.",
	FewerCases:     "%d {suite announces more cases than it has|suites announce more cases than they have}, first: %s.",
	SuiteFailed:    "%d {suite failed outside of its|suites failed outside of their} cases, first: %s. Cases may be missing.",
	Missing:        "%d {report is|reports are} announced and missing: %s.",
	Refused:        "The upload could not be read, or not all of it: %s.",
	TooMany:        "There are more cases than may be in one upload: %s.",
	OtherCounts:    "%d {suite announces fewer cases than it has|suites announce fewer cases than they have}. The cases count.",
	Nameless:       "%d {case has no name and is|cases have no name and are} left out.",
	LongNames:      "%d {name is longer than 1000 characters and is cut where it is|names are longer than 1000 characters and are cut where they are} shown.",
	BadCharacters:  "%d {text has|texts have} characters that are not valid; they are replaced.",
	NoZone:         "%d {time has no zone and is|times have no zone and are} taken for UTC.",
	BadTimes:       "%d {time is|times are} not plausible (%s); the time of the upload stands for {it|them}.",
	BadDurations:   "%d {duration is not a number of seconds (%s) and is|durations are not numbers of seconds (%s) and are} left out.",
	AmbiguousTests: "%d {name belongs|names belong} to several cases that cannot be told apart, such as %s. They count as failed if one of them failed, and are no evidence that a test is flaky.",
	CachedResults:  "%d {result is cached and is left out: the test|results are cached and are left out: the tests} did not run.",
	UnknownFile:    "%d {file is not known and is|files are not known and are} left out, such as %s.",
	BadOwners:      "%d {line of CODEOWNERS is not valid and is|lines of CODEOWNERS are not valid and are} left out: %s.",
}

// Note is one thing that was wrong with a report, and how often.
type Note struct {
	Code    NoteCode
	Count   int
	Example string // of the first
	File    string // in which the first was found; "" where that is not known or says nothing
	Others  int    // in how many more files it was
}

// Incomplete reports whether something is missing because of it.
func (n Note) Incomplete() bool {
	switch n.Code {
	case Truncated, Empty, NotAReport, SeveralRoots, Malformed, FewerCases, TooMany, SuiteFailed, Missing, Refused:
		return true
	}
	return false
}

// String is the note as a sentence for people.
func (n Note) String() string {
	text := n.sentence()
	switch {
	case n.File == "":
		return text
	case n.Others == 0:
		return fmt.Sprintf("%s (%s).", strings.TrimSuffix(text, "."), n.File)
	}
	return fmt.Sprintf(flaky.Worded(n.Others, "%s (%s and %d more {file|files})."), strings.TrimSuffix(text, "."), n.File, n.Others)
}

func (n Note) sentence() string {
	switch text := flaky.Worded(n.Count, sentences[n.Code]); n.Code {
	case Truncated, Empty:
		return text
	case NotAReport, TooMany, Refused:
		return fmt.Sprintf(text, n.Example)
	case Malformed, FewerCases, SuiteFailed, Missing, BadTimes, BadDurations, AmbiguousTests, UnknownFile, BadOwners:
		return fmt.Sprintf(text, n.Count, n.Example)
	default:
		return fmt.Sprintf(text, n.Count)
	}
}

// Notes are what was wrong with a report, each kind once, in the order in which
// they came up.
type Notes []Note

func (n *Notes) add(code NoteCode, example string) { n.addMany(code, 1, example) }

func (n *Notes) addMany(code NoteCode, count int, example string) {
	n.merge(Notes{{Code: code, Count: count, Example: quoted(example)}})
}

// quoted is a piece of what came, which may be damaged, to be shown.
func quoted(text string) string {
	return flaky.Shown(new(decoder).message(strings.ToValidUTF8(text, "\uFFFD")))
}

// merge adds the notes of a part.
func (n *Notes) merge(part Notes) {
	for _, p := range part {
		i := slices.IndexFunc(*n, func(o Note) bool { return o.Code == p.Code })
		if i < 0 {
			*n = append(*n, p)
			continue
		}
		(*n)[i].Count += p.Count
		if p.File != "" {
			(*n)[i].Others++
		}
	}
}

// in is the notes of one file, with its name.
func (n Notes) in(file string) Notes {
	for i := range n {
		n[i].File = quoted(file)
	}
	return n
}

// Has reports whether a note of that kind was made.
func (n Notes) Has(code NoteCode) bool {
	for _, note := range n {
		if note.Code == code {
			return true
		}
	}
	return false
}

// Problems are the notes because of which the report is not complete.
func (n Notes) Problems() []Note {
	var all []Note
	for _, note := range n {
		if note.Incomplete() {
			all = append(all, note)
		}
	}
	return all
}
