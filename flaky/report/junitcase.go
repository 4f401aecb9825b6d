package report

import (
	"bytes"
	"strings"
	"time"
	"unicode/utf8"

	"signalbox/flaky"
)

// element is a tag that means something.
type element uint8

// The elements.
const (
	otherTag element = iota
	testsuites
	testsuite
	testcase
	failure      // failure, error
	skipped      // skipped, disabled, ignored, notrun
	flakyAttempt // surefire: this attempt failed, and a later one passed
	failAttempt  // surefire: another attempt that failed
	stackTrace   // surefire: the text of the two above
	output       // system-out, system-err
	property
	htmlPage
)

var elements = map[string]element{
	"testsuites": testsuites, "testsuite": testsuite, "testcase": testcase, "failure": failure, "error": failure,
	"skipped": skipped, "disabled": skipped, "ignored": skipped, "notrun": skipped,
	"flakyfailure": flakyAttempt, "flakyerror": flakyAttempt, "rerunfailure": failAttempt, "rerunerror": failAttempt,
	"stacktrace": stackTrace, "system-out": output, "system-err": output, "property": property, "html": htmlPage,
}

// elementOf reads a tag's name: without its namespace and in any case.
func elementOf(name []byte) element {
	if e, ok := elements[string(name)]; ok {
		return e
	}
	if i := bytes.LastIndexByte(name, ':'); i >= 0 {
		name = name[i+1:]
	}
	if len(name) > 20 {
		return otherTag
	}
	return elements[strings.ToLower(string(name))]
}

func (e element) structural() bool { return e == testsuites || e == testsuite || e == testcase }

// suite is an open <testsuite> or <testsuites>.
type suite struct {
	name, file, host string
	root             bool // <testsuites>
	at               time.Time
	announced        int // cases; -1 if it does not say
	found            int
}

// caseState is what the elements within a case have said so far.
type caseState struct {
	failed   bool
	skipped  bool
	attempts []Attempt // surefire's
	passedAt bool      // the last of them was followed by a pass
	failure  flaky.Failure
	texts    []string
}

// start begins an element.
func (j *junit) start(e element, t tag) error {
	switch e {
	case testsuites, testsuite:
		j.seen = true
		if err := j.unclosed(); err != nil {
			return err
		}
		j.startSuite(e, t)
	case testcase:
		j.seen = true
		if err := j.unclosed(); err != nil {
			return err
		}
		j.startCase(t)
		if t.closed {
			return j.endCase()
		}
	case failure, flakyAttempt, failAttempt, skipped, output:
		j.startText(e, t)
	case property:
		// gotestsum names the version of Go; tests of one Go package never
		// share a name, so a name that comes again is another attempt.
		if !j.inCase && t.is("name", "go.version") {
			j.kind.repeats = Attempts
		}
	case htmlPage:
		j.html()
	}
	return nil
}

func (t tag) is(name, value string) bool {
	for _, a := range t.attrs {
		if string(a.name) == name {
			return string(a.value) == value
		}
	}
	return false
}

// unclosed ends a case in which something begins that cannot be part of it.
func (j *junit) unclosed() error {
	if !j.inCase {
		return nil
	}
	j.notes.add(Malformed, "test case "+j.c.Name+" has no end")
	return j.endCase()
}

// gradleOrder are the attributes that Gradle gives a suite, in its order. Its
// plug-in for retries writes a case for each attempt.
var gradleOrder = []string{"name", "tests", "skipped", "failures", "errors", "timestamp", "hostname", "time"}

func (j *junit) startSuite(e element, t tag) {
	s := suite{root: e == testsuites, announced: -1}
	if n := len(j.suites); n > 0 {
		s.at, s.file = j.suites[n-1].at, j.suites[n-1].file
	}
	file, filepath, gradle := "", "", !s.root && len(t.attrs) == len(gradleOrder)
	for i, a := range t.attrs {
		name := string(a.name)
		gradle = gradle && name == gradleOrder[i]
		switch strings.ToLower(name) {
		case "name":
			s.name = j.attribute(a.value)
		case "file":
			file = j.attribute(a.value)
		case "filepath":
			filepath = j.attribute(a.value)
		case "hostname":
			s.host = j.attribute(a.value)
		case "timestamp":
			s.at = j.time(a.value)
		case "tests":
			s.announced = count(a.value)
		case "id":
			j.kind.playwright = j.kind.playwright || s.root
		}
	}
	if f := or(file, filepath); f != "" {
		s.file = f
	}
	j.kind.recognise(s, gradle)
	switch {
	case len(j.suites) >= maxDepth:
		j.notes.add(Malformed, "suites are nested too deeply")
	case t.closed:
		j.suites = append(j.suites, s)
		j.endSuite()
	default:
		j.suites = append(j.suites, s)
	}
}

// recognise sees by a suite which program writes a name twice only for another
// attempt.
func (d *dialect) recognise(s suite, gradle bool) {
	switch {
	case s.root:
	case s.name == "pytest":
		d.repeats = Silent // pytest-rerunfailures writes no failure into the earlier ones
	case gradle:
		d.repeats = Attempts
	case d.repeats == Silent:
		d.repeats = Ambiguous // another program's report follows
	}
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// count reads a number of cases; -1 if it is none.
func count(raw []byte) int {
	n := 0
	for _, c := range raw {
		if c < '0' || c > '9' || n > 1e8 {
			return -1
		}
		n = 10*n + int(c-'0')
	}
	if len(raw) == 0 {
		return -1
	}
	return n
}

func (j *junit) startCase(t tag) {
	j.inCase = true
	earlier := j.c.Earlier[:0]
	j.c = Case{Seconds: -1, Reruns: j.kind.repeats, Earlier: earlier}
	j.state = caseState{attempts: j.state.attempts[:0], texts: j.state.texts[:0]}
	j.printed.reset()
	filepath := ""
	for _, a := range t.attrs {
		switch string(lower(a.name)) {
		case "name":
			j.c.Name = j.attribute(a.value)
		case "classname", "class":
			j.c.Classname = j.shared(0, a.value)
		case "file":
			j.c.File = j.shared(1, a.value)
		case "filepath":
			filepath = j.shared(2, a.value)
		case "id":
			j.c.Given = j.attribute(a.value)
		case "line", "lineno":
			j.c.Line = j.attribute(a.value)
		case "attempt", "retry", "index":
			j.c.Attempt = max(count(a.value), 0)
		case "time", "duration":
			j.c.Seconds = j.seconds(a.value)
		case "timestamp":
			j.c.At = j.time(a.value)
		case "status", "result":
			j.statusWord(string(a.value))
		}
	}
	j.c.File = or(j.c.File, filepath)
	j.place()
}

// shared is an attribute whose value is often that of the case before.
func (j *junit) shared(slot int, raw []byte) string {
	c := &j.cache[slot]
	if c.text == "" || !bytes.Equal(c.raw, raw) {
		c.raw, c.text = append(c.raw[:0], raw...), j.attribute(raw)
	}
	return c.text
}

// statusWord reads what CTest, GoogleTest and others say of a case in an
// attribute.
func (j *junit) statusWord(word string) {
	switch strings.ToLower(word) {
	case "failed", "fail", "failure", "error", "errored":
		j.state.failed = true
	case "skipped", "notrun", "disabled", "pending", "ignored", "suppressed", "todo":
		j.state.skipped = true
	}
}

// place gives the case what its suites know.
func (j *junit) place() {
	for i := range j.suites {
		if !j.suites[i].root {
			j.c.Parent = j.suites[i].name
			break
		}
	}
	if len(j.suites) == 0 {
		return
	}
	s := &j.suites[len(j.suites)-1]
	j.c.File = or(j.c.File, s.file)
	if j.c.At.IsZero() {
		j.c.At = s.at
	}
	if j.kind.playwright && s.host != "" && j.c.Classname == s.name {
		j.c.Variant = s.host
	}
}

// startText begins an element that has a text, and takes its attributes.
func (j *junit) startText(e element, t tag) {
	j.attempt = flaky.Failure{}
	for _, a := range t.attrs {
		switch string(lower(a.name)) {
		case "message":
			j.attempt.Message = j.message(j.decode(a.value, true))
		case "type":
			j.attempt.Type = j.attribute(a.value)
		}
	}
	j.text, j.nested = e, 0
	j.body.reset()
	if t.closed {
		j.endText()
	}
}

// endText ends an element that has a text.
func (j *junit) endText() {
	e := j.text
	j.text = otherTag
	if e == output {
		return
	}
	f := j.attempt
	f.Text = strings.TrimSpace(j.body.text().String())
	if !j.inCase {
		if e == failure {
			j.notes.add(SuiteFailed, or(f.Message, or(f.Text, "without a message")))
		}
		return
	}
	s := &j.state
	switch e {
	case failure:
		if !s.failed || s.failure == (flaky.Failure{}) {
			s.failure = flaky.Failure{Type: f.Type, Message: f.Message}
		}
		s.failed = true
		s.texts = append(s.texts, joined(s.failure, f))
	case skipped:
		s.skipped = true
	case flakyAttempt, failAttempt:
		s.passedAt = s.passedAt || e == flakyAttempt
		if len(s.attempts) < maxAttempts {
			s.attempts = append(s.attempts, Attempt{Outcome: Failed, Failure: f})
		}
	}
}

// joined is the text of one of several failures of a case, with its message if
// that is not the one that is kept.
func joined(first, f flaky.Failure) string {
	if f.Message != "" && f.Message != first.Message {
		return strings.TrimSpace(f.Message + "\n" + f.Text)
	}
	return f.Text
}

// close ends an element.
func (j *junit) close(e element) error {
	switch e {
	case testcase:
		if j.inCase {
			return j.endCase()
		}
	case testsuite, testsuites:
		if err := j.unclosed(); err != nil {
			return err
		}
		for len(j.suites) > 0 {
			last := j.suites[len(j.suites)-1]
			if e == testsuite && last.root {
				break // an end without a beginning
			}
			j.endSuite()
			if e == testsuite || last.root {
				break
			}
		}
	}
	return nil
}

// endSuite compares what the suite announced with what came.
func (j *junit) endSuite() {
	n := len(j.suites) - 1
	s := j.suites[n]
	j.suites = j.suites[:n]
	switch {
	case s.announced > s.found:
		j.notes.add(FewerCases, or(s.name, "without a name"))
	case s.announced >= 0 && s.announced < s.found:
		j.notes.add(OtherCounts, s.name)
	}
	if n > 0 {
		j.suites[n-1].found += s.found
	} else {
		j.roots++
	}
}

// endCase gives the case to whoever reads the report.
func (j *junit) endCase() error {
	j.inCase = false
	if n := len(j.suites); n > 0 {
		j.suites[n-1].found++
	} else {
		j.roots++
	}
	if strings.TrimSpace(j.c.Name) == "" {
		j.notes.add(Nameless, "")
		return nil
	}
	if len(j.c.Name) > flaky.ShownLength && utf8.RuneCountInString(j.c.Name) > flaky.ShownLength {
		j.notes.add(LongNames, j.c.Name)
	}
	j.outcome()
	if j.printed.size > 0 {
		j.c.Output = j.printed.text()
	}
	return j.each(&j.c)
}

// outcome makes one of all that the case said: the worst counts. Surefire's
// attempts stand in the order in which they were made: those of a test that
// passed in the end all came before, and of a test that failed the first one is
// the failure itself.
func (j *junit) outcome() {
	s := &j.state
	s.failure.Text = strings.Join(s.texts, "\n\n")
	switch {
	case s.failed && len(s.attempts) > 0:
		first := Attempt{Outcome: Failed, Failure: s.failure}
		last := s.attempts[len(s.attempts)-1]
		j.c.Earlier = append(append(j.c.Earlier, first), s.attempts[:len(s.attempts)-1]...)
		j.c.Outcome, j.c.Failure = Failed, last.Failure
	case s.failed:
		j.c.Outcome, j.c.Failure = Failed, s.failure
	case s.passedAt:
		j.c.Earlier = append(j.c.Earlier, s.attempts...)
		j.c.Outcome, j.c.Failure = Passed, s.attempts[len(s.attempts)-1].Failure
	case len(s.attempts) > 0: // reruns that failed, of what nobody says that it failed
		j.c.Earlier = append(j.c.Earlier, s.attempts[:len(s.attempts)-1]...)
		j.c.Outcome, j.c.Failure = Failed, s.attempts[len(s.attempts)-1].Failure
	case s.skipped:
		j.c.Outcome = Skipped
	default:
		j.c.Outcome = Passed
	}
}

// lower is a name in small letters, which it mostly is already.
func lower(name []byte) []byte {
	for _, c := range name {
		if 'A' <= c && c <= 'Z' || c >= 0x80 {
			return bytes.ToLower(name)
		}
	}
	return name
}
