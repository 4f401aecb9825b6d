package report

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"

	"signalbox/flaky"
)

// decoder makes readable text of the bytes of a report.
type decoder struct {
	// charset is what the report says it is written in, if that is a set of one
	// byte a character. Bytes that are valid UTF-8 are believed over it.
	charset  encoding.Encoding
	replaced int // texts in which something had to be replaced
}

// charsets are those of one byte a character, by their names without anything
// but letters and digits.
var charsets = func() map[string]encoding.Encoding {
	all := map[string]encoding.Encoding{"latin1": charmap.ISO8859_1, "latin9": charmap.ISO8859_15}
	for _, e := range charmap.All {
		if m, ok := e.(*charmap.Charmap); ok {
			name := plain(m.String())
			all[name] = e
			if page, ok := strings.CutPrefix(name, "windows"); ok {
				all["cp"+page] = e
			}
		}
	}
	return all
}()

func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// attribute decodes the value of an attribute, and a name.
func (d *decoder) attribute(raw []byte) string {
	if simple(raw) {
		return string(raw)
	}
	return d.finish(d.decode(raw, true))
}

// simple reports whether bytes are printable ASCII without references.
func simple(raw []byte) bool {
	for _, c := range raw {
		if c < ' ' || c >= 0x7f || c == '&' {
			return false
		}
	}
	return true
}

// decode makes UTF-8 of bytes, with references resolved where there may be any,
// and line ends made one character.
func (d *decoder) decode(raw []byte, references bool) string {
	text := string(raw)
	if !utf8.ValidString(text) {
		if d.charset != nil {
			if decoded, err := d.charset.NewDecoder().String(text); err == nil {
				text = decoded
			}
		} else {
			d.replaced++
		}
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	if strings.Contains(text, "\r") {
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	}
	if references && strings.Contains(text, "&") {
		text = resolve(text)
	}
	return text
}

// finish replaces characters that no text should have, such as NUL.
func (d *decoder) finish(text string) string {
	if strings.IndexFunc(text, odd) < 0 {
		return text
	}
	d.replaced++
	return strings.Map(func(r rune) rune {
		if odd(r) {
			return '\uFFFD'
		}
		return r
	}, text)
}

func odd(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff
}

// message decodes a message or a text for people: terminal sequences go.
func (d *decoder) message(text string) string { return d.finish(flaky.StripANSI(text)) }

var named = map[string]string{"lt": "<", "gt": ">", "amp": "&", "quot": `"`, "apos": "'"}

// resolve replaces the five references that XML knows, and numbers. Others stay
// as they are: nothing that a report declares is ever expanded.
func resolve(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for {
		i := strings.IndexByte(text, '&')
		if i < 0 {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(text[:i])
		text = text[i:]
		n := write(&b, text)
		text = text[n:]
	}
}

// write writes what a reference stands for and returns its length.
func write(b *strings.Builder, text string) int {
	name, n, ok := reference(text)
	if !ok {
		b.WriteByte('&')
		return 1
	}
	if s, ok := named[name]; ok {
		b.WriteString(s)
		return n
	}
	r, ok := number(name)
	if !ok {
		b.WriteString(text[:n])
		return n
	}
	if high := r >= 0xd800 && r < 0xdc00; high { // half of a character: its partner may follow
		if name, m, ok := reference(text[n:]); ok {
			if low, ok := number(name); ok && low >= 0xdc00 && low < 0xe000 {
				b.WriteRune((r-0xd800)<<10 | (low - 0xdc00) + 0x10000)
				return n + m
			}
		}
	}
	b.WriteRune(r) // writes U+FFFD for what is no character
	return n
}

// reference reads "&name;".
func reference(text string) (name string, length int, ok bool) {
	if !strings.HasPrefix(text, "&") {
		return "", 0, false
	}
	for i := 1; i < min(len(text), 14); i++ {
		switch c := text[i]; {
		case c == ';' && i > 1:
			return text[1:i], i + 1, true
		case c != '#' && (c < '0' || c > '9') && (c|' ' < 'a' || c|' ' > 'z'):
			return "", 0, false
		}
	}
	return "", 0, false
}

func number(name string) (rune, bool) {
	digits, ok := strings.CutPrefix(name, "#")
	if !ok {
		return 0, false
	}
	base := 10
	if hex, ok := strings.CutPrefix(digits, "x"); ok {
		digits, base = hex, 16
	}
	n, err := strconv.ParseUint(digits, base, 32)
	if err != nil || n > unicode.MaxRune {
		return unicode.ReplacementChar, err == nil
	}
	return rune(n), true
}

// kept collects a text that may be of any length and keeps its two ends.
type kept struct {
	d          *decoder
	limit      int // bytes of each end
	head, tail []byte
	size       int64
}

// add takes the next piece of the text. What is cut away is never decoded.
func (k *kept) add(raw []byte, references bool) {
	k.size += int64(len(raw))
	if room := k.limit - len(k.head); room > 0 && len(k.tail) == 0 {
		n := min(room, len(raw))
		if n < len(raw) {
			n = max(unbroken(raw[:n]), min(n, 1))
		}
		k.head = append(k.head, k.d.decode(raw[:n], references)...)
		raw = raw[n:]
	}
	if len(raw) == 0 {
		return
	}
	if most := 2 * k.limit; len(raw) > most {
		raw = raw[len(raw)-most:]
	}
	k.tail = append(k.tail, k.d.decode(raw, references)...)
	if len(k.tail) > 4*k.limit {
		k.tail = append(k.tail[:0], k.tail[len(k.tail)-k.limit:]...)
	}
}

// reset begins a new text.
func (k *kept) reset() { k.head, k.tail, k.size = k.head[:0], k.tail[:0], 0 }

func (k *kept) text() Text {
	tail := k.tail[max(0, len(k.tail)-k.limit):]
	if i := bytes.IndexFunc(tail, func(r rune) bool { return r != utf8.RuneError }); i > 0 && len(tail) < len(k.tail) {
		tail = tail[i:]
	}
	return Text{Head: k.d.message(string(k.head)), Tail: k.d.message(strings.ToValidUTF8(string(tail), "")), Size: k.size}
}
