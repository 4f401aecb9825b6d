package report

import (
	"bytes"
	"io"
	"unicode/utf8"
)

const (
	firstBuffer = 256 << 10
	// maxTag bounds one tag with its attributes, and with it the memory of a
	// scanner. A "<" that is followed by more than that without an end is text.
	maxTag = 4 << 20
	// maxAttributes bounds the attributes of one tag that are looked at.
	maxAttributes = 64
)

// lexer cuts a stream into texts and tags without judging them. It knows just
// enough of XML to find where things end, and goes on after whatever it does not
// understand.
type lexer struct {
	src      io.Reader
	buf      []byte
	pos, end int   // what is read and not yet consumed
	err      error // of src: io.EOF at the end
	attrs    [maxAttributes]attribute
}

// attribute is a part of the buffer: valid until the next byte is consumed.
type attribute struct{ name, value []byte }

// tag is a start tag. Its attributes are in lexer.attrs.
type tag struct {
	name   []byte
	attrs  []attribute
	closed bool // <x/>
	length int
}

func newLexer(src io.Reader) *lexer { return &lexer{src: src, buf: make([]byte, firstBuffer)} }

// more reads on and keeps what is not consumed. It reports whether something
// came.
func (l *lexer) more() bool {
	if l.err != nil {
		return false
	}
	if l.pos > 0 {
		copy(l.buf, l.buf[l.pos:l.end])
		l.end -= l.pos
		l.pos = 0
	}
	if l.end == len(l.buf) {
		if len(l.buf) >= maxTag {
			return false
		}
		grown := make([]byte, 2*len(l.buf))
		copy(grown, l.buf)
		l.buf = grown
	}
	for range 100 {
		n, err := l.src.Read(l.buf[l.end:])
		l.end += n
		l.err = err
		if n > 0 || err != nil {
			return n > 0
		}
	}
	l.err = io.ErrNoProgress
	return false
}

// rest is what is read and not consumed.
func (l *lexer) rest() []byte { return l.buf[l.pos:l.end] }

// atLeast makes n bytes available if there are so many.
func (l *lexer) atLeast(n int) bool {
	for l.end-l.pos < n {
		if !l.more() {
			return false
		}
	}
	return true
}

// startsWith reports whether a text stands next, in any case of its letters.
func (l *lexer) startsWith(text string) bool {
	return l.atLeast(len(text)) && bytes.EqualFold(l.buf[l.pos:l.pos+len(text)], []byte(text))
}

// text consumes up to the next "<" and gives it to a function piece by piece,
// which may be nil. It reports whether there is a "<".
func (l *lexer) text(piece func([]byte)) bool {
	for {
		rest := l.rest()
		if i := bytes.IndexByte(rest, '<'); i >= 0 {
			if piece != nil && i > 0 {
				piece(rest[:i])
			}
			l.pos += i
			return true
		}
		whole := len(rest)
		if piece != nil && l.err == nil {
			whole = unbroken(rest)
		}
		if piece != nil && whole > 0 {
			piece(rest[:whole])
		}
		l.pos += whole
		if !l.more() {
			if rest := l.rest(); len(rest) > 0 && piece != nil {
				piece(rest)
			}
			l.pos = l.end
			return false
		}
	}
}

// unbroken is how much of a text can be decoded without what follows: it ends
// neither in a character nor in a reference ("&am").
func unbroken(text []byte) int {
	n := len(text)
	for back := 1; back <= 3 && back <= n; back++ {
		if c := text[n-back]; utf8.RuneStart(c) {
			if !utf8.FullRune(text[n-back:]) {
				n -= back
			}
			break
		}
	}
	const longest = 12
	if i := bytes.LastIndexByte(text[max(0, n-longest):n], '&'); i >= 0 {
		return max(0, n-longest) + i
	}
	if n > 0 && text[n-1] == '\r' {
		n--
	}
	return n
}

// until consumes up to and with an end mark and gives what stands before it to a
// function, which may be nil. It reports whether the mark was found.
func (l *lexer) until(mark string, piece func([]byte)) bool {
	for {
		rest := l.rest()
		if i := bytes.Index(rest, []byte(mark)); i >= 0 {
			if piece != nil && i > 0 {
				piece(rest[:i])
			}
			l.pos += i + len(mark)
			return true
		}
		keep := len(mark) - 1
		whole := max(0, len(rest)-keep)
		if piece != nil {
			whole = unbroken(rest[:whole])
			if whole > 0 {
				piece(rest[:whole])
			}
		}
		l.pos += whole
		if !l.more() {
			if piece != nil && l.pos < l.end {
				piece(l.rest())
			}
			l.pos = l.end
			return false
		}
	}
}

// declaration skips <!DOCTYPE …> with whatever is declared in it. Nothing of it
// is kept. It reports whether it ended.
func (l *lexer) declaration() bool {
	depth := 0
	var quote byte
	for {
		for i, c := range l.rest() {
			switch {
			case quote != 0:
				if c == quote {
					quote = 0
				}
			case c == '"' || c == '\'':
				quote = c
			case c == '[' || c == '<':
				depth++
			case c == ']':
				depth--
			case c == '>':
				if depth--; depth <= 0 {
					l.pos += i + 1
					return true
				}
			}
		}
		l.pos = l.end
		if !l.more() {
			return false
		}
	}
}

// maxEndTag bounds an end tag, whose name is short. Without a bound, a long row
// of "</" would be searched to its end for each of them.
const maxEndTag = 256

// endTag reads "</name>" and does not consume it: length is what it takes. ok is
// false if it does not end.
func (l *lexer) endTag() (name []byte, length int, ok bool) {
	for {
		rest := l.rest()
		rest = rest[:min(len(rest), maxEndTag)]
		if i := bytes.IndexByte(rest, '>'); i >= 0 {
			return bytes.TrimSpace(rest[2:i]), i + 1, true
		}
		if len(rest) == maxEndTag || !l.more() {
			return nil, 0, false
		}
	}
}

// startTag reads a start tag and does not consume it. ok is false if it does not
// end. A tag that is not all there is parsed anew when twice as much of it has
// come, so that a long one costs no more than a few of its length.
func (l *lexer) startTag() (t tag, ok bool) {
	for {
		if t, ok = l.parseTag(l.rest()); ok {
			return t, true
		}
		want := 2 * len(l.rest())
		if !l.more() {
			return tag{}, false
		}
		l.atLeast(want)
	}
}

// parseTag parses what begins with "<" and a letter. An attribute may lack its
// quotes, its value, or the blank before the next one. A "<" outside of quotes
// ends the tag: its own ">" is missing.
func (l *lexer) parseTag(b []byte) (tag, bool) {
	i := 1
	for i < len(b) && !ends(b[i]) {
		i++
	}
	t := tag{name: b[1:i]}
	n := 0
	for i < len(b) {
		switch c := b[i]; {
		case c == '>':
			t.attrs, t.length = l.attrs[:n], i+1
			return t, true
		case c == '<':
			t.attrs, t.length = l.attrs[:n], i
			return t, true
		case c == '/':
			t.closed = i+1 < len(b) && b[i+1] == '>'
			i++
		case c <= ' ':
			i++
		default:
			name, value, next := parseAttribute(b, i)
			if next < 0 {
				return tag{}, false
			}
			if n < maxAttributes {
				l.attrs[n] = attribute{name, value}
				n++
			}
			i = next
		}
	}
	return tag{}, false
}

// parseAttribute parses from i on and returns where it goes on; -1 if the
// attribute does not end.
func parseAttribute(b []byte, i int) (name, value []byte, next int) {
	start := i
	i++ // at least one character, or nothing would be consumed
	for i < len(b) && b[i] != '=' && !ends(b[i]) {
		i++
	}
	name = b[start:i]
	for i < len(b) && b[i] <= ' ' {
		i++
	}
	if i == len(b) {
		return nil, nil, -1
	}
	if b[i] != '=' {
		return name, nil, i
	}
	i++
	for i < len(b) && b[i] <= ' ' {
		i++
	}
	if i == len(b) {
		return nil, nil, -1
	}
	if quote := b[i]; quote == '"' || quote == '\'' {
		end := bytes.IndexByte(b[i+1:], quote)
		if end < 0 {
			return nil, nil, -1
		}
		return name, b[i+1 : i+1+end], i + end + 2
	}
	start = i
	for i < len(b) && b[i] > ' ' && b[i] != '>' && b[i] != '<' {
		i++
	}
	if i == len(b) {
		return nil, nil, -1
	}
	return name, b[start:i], i
}

func ends(c byte) bool { return c <= ' ' || c == '>' || c == '/' || c == '<' }

// beginsName reports whether a byte after "<" makes it a tag.
func beginsName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
}
