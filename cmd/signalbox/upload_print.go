package main

import (
	"fmt"
	"io"
	"strings"

	"signalbox/flaky"
)

// shownFailures bounds how many failures are listed on a terminal.
const shownFailures = 50

// because says why a failure is excused, or is not.
var because = map[flaky.QuarantineCode]string{
	flaky.SetAlways:       "somebody set it to be always quarantined",
	flaky.KnownFailure:    "the test is flaky, and has failed like this before",
	flaky.AutomaticOn:     "the test is flaky",
	flaky.SetNever:        "somebody set it never to be quarantined",
	flaky.SuspendedBroken: "the test was quarantined, and now it always fails",
	flaky.RepositoryOff:   "the repository has automatic quarantine switched off",
	flaky.NotEnough:       "the test is flaky, and there is not enough evidence for quarantine yet",
	flaky.NotFlaky:        "the test is not known to be flaky",
	flaky.NewFailure:      "the test is quarantined, and has never failed like this: it may be a bug",
}

// print says what came of an upload.
func (o *outcome) print(c console, asJSON bool) error {
	if o.trouble != nil {
		o.warn(c.err)
	}
	if asJSON {
		return printJSON(c, o.encode())
	}
	var b strings.Builder
	skipped := o.read.Skipped()
	fmt.Fprintf(&b, "Signalbox: %s, %s, %d failed, %d skipped.\n", counted(o.files, "report"), counted(len(o.read.Tests), "test"), len(o.failing), skipped)
	for i, f := range o.failing {
		if i == shownFailures {
			fmt.Fprintf(&b, "  and %d more\n", len(o.failing)-i)
			break
		}
		fmt.Fprintf(&b, "  %s  %s\n", f.word(), printable(f.title()))
		if f.Summary != "" {
			fmt.Fprintf(&b, "               %s\n", printable(f.Summary))
		}
		if why := because[f.code]; why != "" {
			fmt.Fprintf(&b, "               %s\n", why)
		}
	}
	for _, n := range o.notes {
		fmt.Fprintf(&b, "  note: %s\n", printable(n.Text))
	}
	fmt.Fprintf(&b, "%s Exit code %d.\n", printable(o.verdict.Text), o.exitCode())
	_, err := io.WriteString(c.out, b.String())
	return err
}

// word is what a failure counts for.
func (f *failingTest) word() string {
	if f.excused {
		return "quarantined"
	}
	return "FAILED     "
}

// title names a test for people.
func (f *failingTest) title() string {
	var parts []string
	for _, p := range []string{f.Parent, f.Classname, f.Name} {
		if p != "" && (len(parts) == 0 || parts[len(parts)-1] != p) {
			parts = append(parts, p)
		}
	}
	title := strings.Join(parts, " > ")
	if f.Variant != "" {
		title += " (" + f.Variant + ")"
	}
	return title
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// warn says that the service did not help. It is meant to be seen in a log of
// thousands of lines.
func (o *outcome) warn(w io.Writer) {
	line := strings.Repeat("!", 72)
	fmt.Fprintf(w, "%s\nWARNING: Signalbox does not know about these test results.\n", line)
	for _, l := range strings.Split(o.trouble.Error(), "\n") {
		fmt.Fprintf(w, "  %s\n", printable(l))
	}
	fmt.Fprintf(w, "Nothing is quarantined for this run: it ends as its tests did.\n%s\n", line)
}

// printedOutcome is the outcome as JSON.
type printedOutcome struct {
	ExitCode int             `json:"exit_code"`
	Code     string          `json:"code"`
	Text     string          `json:"text"`
	Reports  int             `json:"reports"`
	Tests    int             `json:"tests"`
	Skipped  int             `json:"skipped"`
	Failures []printedFailed `json:"failures"`
	Notes    []flaky.Note    `json:"notes"`
	UploadID string          `json:"upload_id"` // "" if the service does not know of it
	Warning  string          `json:"warning"`   // why it does not; else ""
}

type printedFailed struct {
	TestCaseID  string `json:"test_case_id"`
	Name        string `json:"name"`
	Parent      string `json:"parent"`
	File        string `json:"file"`
	Classname   string `json:"classname"`
	Variant     string `json:"variant"`
	Summary     string `json:"summary"`
	Quarantined bool   `json:"quarantined"`
	ReasonCode  string `json:"reason_code"`
}

func (o *outcome) encode() printedOutcome {
	out := printedOutcome{ExitCode: o.exitCode(), Code: string(o.verdict.Code), Text: o.verdict.Text, Reports: o.files,
		Tests: len(o.read.Tests), Skipped: o.read.Skipped(), Failures: []printedFailed{}, Notes: append([]flaky.Note{}, o.notes...)}
	for _, f := range o.failing {
		out.Failures = append(out.Failures, printedFailed{f.ID.String(), f.Name, f.Parent, f.File, f.Classname, f.Variant, f.Summary, f.excused, string(f.code)})
	}
	if o.kept != nil {
		out.UploadID = o.kept.ID
	}
	if o.trouble != nil {
		out.Warning = o.trouble.Error()
	}
	return out
}
