package report

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"time"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"signalbox/flaky"
)

// Options are what a scanner has to be told.
type Options struct {
	// Uploaded is when the report came. Times that cannot be right are
	// replaced by it.
	Uploaded time.Time
}

const (
	// failureEnds and outputEnds are how many bytes are kept at each end of what
	// a failure says and of what a test printed.
	failureEnds = 8 << 10
	outputEnds  = 2 << 10
	// maxDepth bounds suites in suites. A report that goes deeper is damaged.
	maxDepth = 200
	// maxAttempts bounds the attempts of one case that are kept.
	maxAttempts = 100
)

// junit reads JUnit XML: the lexer finds texts and tags, and junit knows what
// is open.
type junit struct {
	*lexer
	decoder
	options Options
	each    func(*Case) error
	notes   Notes

	suites []suite // the open ones, the outermost first
	roots  int     // suites and cases that stood alone and ended
	seen   bool    // something that belongs to a test report
	cut    bool    // the report ends within a tag, a text or a comment
	kind   dialect

	inCase bool
	c      Case
	state  caseState

	text     element // whose text is read now
	nested   int     // tags opened within the text that will be closed in it
	attempt  flaky.Failure
	body     kept
	printed  kept
	cache    [4]cached // class, file, path and time of the case before
	lastTime time.Time
}

// dialect is what is known of the program that wrote the report.
type dialect struct {
	playwright bool // its suites name their browser as a host
	repeats    Repeats
}

// cached is a value that many cases share.
type cached struct {
	raw  []byte
	text string
}

// ScanJUnit reads a JUnit report and gives each case to a function. The notes
// say what was wrong with the report. The error is that of the reader or of the
// function.
func ScanJUnit(r io.Reader, o Options, each func(*Case) error) (Notes, error) {
	src, err := utf16(r)
	if err != nil {
		return nil, err
	}
	j := newJUnit(src, o, each)
	if err := j.run(); err != nil {
		return j.notes, err
	}
	if j.err != nil && !errors.Is(j.err, io.EOF) {
		return j.notes, j.err
	}
	return j.notes, nil
}

func newJUnit(src io.Reader, o Options, each func(*Case) error) *junit {
	j := &junit{lexer: newLexer(src), options: o, each: each}
	j.body = kept{d: &j.decoder, limit: failureEnds}
	j.printed = kept{d: &j.decoder, limit: outputEnds}
	return j
}

// utf16 looks at the first bytes: UTF-16 is made UTF-8, and a mark of UTF-8
// goes.
func utf16(r io.Reader) (io.Reader, error) {
	var first [4]byte
	n, err := io.ReadFull(r, first[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	head := first[:n]
	all := io.MultiReader(bytes.NewReader(head), r)
	order, bom := unicode.LittleEndian, unicode.UseBOM
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		return io.MultiReader(bytes.NewReader(head[3:]), r), nil
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
	case bytes.HasPrefix(head, []byte("<\x00")):
		bom = unicode.IgnoreBOM
	case bytes.HasPrefix(head, []byte("\x00<")):
		order, bom = unicode.BigEndian, unicode.IgnoreBOM
	default:
		return all, nil
	}
	return transform.NewReader(all, unicode.UTF16(order, bom).NewDecoder()), nil
}

func (j *junit) run() error {
	some := false // anything but blanks
	look := func(b []byte) { some = some || len(bytes.Trim(b, "\x00 \t\r\n")) > 0 }
	for {
		var piece func([]byte)
		switch {
		case j.text != otherTag:
			piece = func(b []byte) { j.collect(b, true) }
		case !some:
			piece = look
		}
		if !j.lexer.text(piece) {
			break
		}
		some = true
		if err := j.markup(); err != nil {
			return err
		}
	}
	j.finish(some)
	return nil
}

// finish notes what is known only at the end.
func (j *junit) finish(some bool) {
	switch {
	case !some:
		j.notes.add(Empty, "")
	case j.cut || j.inCase || len(j.suites) > 0:
		j.notes.add(Truncated, "")
	case !j.seen && !j.notes.Has(NotAReport):
		j.notes.add(NotAReport, "it has no test suites and no test cases")
	}
	if j.roots > 1 {
		j.notes.addMany(SeveralRoots, j.roots-1, "")
	}
	if j.replaced > 0 {
		j.notes.addMany(BadCharacters, j.replaced, "")
	}
}

// collect takes a piece of the text that is read now.
func (j *junit) collect(piece []byte, references bool) {
	switch {
	case j.text != output:
		j.body.add(piece, references)
	case j.inCase:
		j.printed.add(piece, references)
	}
}

// literal takes one byte, "<", as text.
func (j *junit) literal() {
	if j.text != otherTag {
		j.collect(j.rest()[:1], false)
	}
	j.pos++
}

// markup reads what begins with "<".
func (j *junit) markup() error {
	if !j.atLeast(2) {
		j.literal()
		return nil
	}
	switch c := j.rest()[1]; {
	case c == '!':
		j.bang()
	case c == '?' && j.text == otherTag:
		j.instruction()
	case c == '/':
		return j.endOf()
	case beginsName(c):
		return j.startOf()
	default:
		j.literal()
	}
	return nil
}

// bang reads a CDATA section, a comment or a declaration.
func (j *junit) bang() {
	ended := true
	switch {
	case j.startsWith("<![CDATA["):
		j.pos += len("<![CDATA[")
		var piece func([]byte)
		if j.text != otherTag {
			piece = func(b []byte) { j.collect(b, false) }
		}
		ended = j.until("]]>", piece)
	case j.startsWith("<!--"):
		j.pos += len("<!--")
		ended = j.until("-->", nil)
	case j.text != otherTag:
		j.literal()
	default:
		if j.startsWith("<!doctype html") {
			j.html()
		}
		ended = j.declaration()
	}
	j.cut = j.cut || !ended
}

func (j *junit) html() {
	if !j.seen && !j.notes.Has(NotAReport) {
		j.notes.add(NotAReport, "it is an HTML page")
	}
}

// instruction reads <?…?>; that of XML names the set of characters.
func (j *junit) instruction() {
	xml := j.startsWith("<?xml")
	var content []byte
	ended := j.until("?>", func(b []byte) {
		if len(content) < 1000 {
			content = append(content, b...)
		}
	})
	j.cut = j.cut || !ended
	_, after, ok := strings.Cut(string(content), "encoding")
	if !xml || !ok {
		return
	}
	after = strings.TrimLeft(after, " \t\r\n=")
	if after != "" && (after[0] == '"' || after[0] == '\'') {
		name, _, _ := strings.Cut(after[1:], after[:1])
		j.charset = charsets[plain(name)]
	}
}

// startOf reads a start tag. What is no known tag within a text is text.
func (j *junit) startOf() error {
	t, ok := j.startTag()
	switch {
	case ok && j.text != otherTag:
		j.tagInText(elementOf(t.name), t)
	case ok:
		err := j.start(elementOf(t.name), t)
		j.pos += t.length
		return err
	case j.text == otherTag && j.err != nil: // the report ends here
		j.pos, j.cut = j.lexer.end, true
	default:
		j.literal()
	}
	return nil
}

// tagInText takes a tag within a text as text, and counts those that will be
// closed in it. Within what surefire says of an attempt there are elements: the
// trace is the text, and what was printed is not kept.
func (j *junit) tagInText(e element, t tag) {
	attempt := j.text == flakyAttempt || j.text == failAttempt
	switch {
	case attempt && e == stackTrace:
		j.pos += t.length
		return
	case attempt && e == output && !t.closed:
		mark := "</" + string(t.name) + ">"
		j.pos += t.length
		j.cut = !j.until(mark, nil) || j.cut
		return
	case e.structural() || e == j.text:
		if !t.closed {
			j.nested++
		}
	}
	j.collect(j.rest()[:t.length], true)
	j.pos += t.length
}

// endOf reads an end tag. Within a text it ends that text if it is its own, or
// that of something around it.
func (j *junit) endOf() error {
	name, length, ok := j.endTag()
	if !ok {
		if j.text == otherTag && j.err != nil && len(j.rest()) < maxEndTag {
			j.pos, j.cut = j.lexer.end, true
		} else {
			j.literal()
		}
		return nil
	}
	e := elementOf(name)
	if j.text == otherTag {
		j.pos += length
		return j.close(e)
	}
	switch {
	case (e == j.text || e.structural()) && j.nested > 0:
		j.nested--
	case e == j.text:
		j.pos += length
		j.endText()
		return nil
	case e.structural():
		j.endText() // its own end is missing
		return nil
	case e == stackTrace && (j.text == flakyAttempt || j.text == failAttempt):
		j.pos += length
		return nil
	}
	j.collect(j.rest()[:length], true)
	j.pos += length
	return nil
}
