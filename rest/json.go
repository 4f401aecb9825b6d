package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep a body may nest. Ours need four; what clients add
// needs a few more; the rest is an attempt to exhaust a stack.
const maxDepth = 100

// value is one JSON value of a body that inspect has approved.
type value struct {
	raw  []byte // exactly the value, without space around it
	base string // path of the value, or of the array that it is in
	item int    // index in that array, -1 if it is in none
}

// path is where the value stands, as messages name it: pr.number, list[3].
func (v value) path() string {
	if v.item < 0 {
		return v.base
	}
	return fmt.Sprintf("%s[%d]", v.base, v.item)
}

// kind is the type of the value, in words.
func (v value) kind() string {
	switch v.raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

func (v value) null() bool { return v.raw[0] == 'n' }

// text is the content of a string.
func (v value) text() string { return unquote(v.raw) }

// members yields the members of an object in order, repeated names included.
func (v value) members() iter.Seq2[string, value] {
	return func(yield func(string, value) bool) {
		for at := next(v.raw, 1); v.raw[at] != '}'; {
			nameEnd := end(v.raw, at)
			name := unquote(v.raw[at:nameEnd])
			at = next(v.raw, next(v.raw, nameEnd)+1) // over the colon
			valueEnd := end(v.raw, at)
			path := name
			if p := v.path(); p != "" {
				path = p + "." + name
			}
			if !yield(name, value{v.raw[at:valueEnd], path, -1}) {
				return
			}
			if at = next(v.raw, valueEnd); v.raw[at] == ',' {
				at = next(v.raw, at+1)
			}
		}
	}
}

// items yields the items of an array in order.
func (v value) items() iter.Seq2[int, value] {
	return func(yield func(int, value) bool) {
		path := v.path()
		for i, at := 0, next(v.raw, 1); v.raw[at] != ']'; i++ {
			itemEnd := end(v.raw, at)
			if !yield(i, value{v.raw[at:itemEnd], path, i}) {
				return
			}
			if at = next(v.raw, itemEnd); v.raw[at] == ',' {
				at = next(v.raw, at+1)
			}
		}
	}
}

// next is the first position from at that is not white space.
func next(raw []byte, at int) int {
	for raw[at] == ' ' || raw[at] == '\t' || raw[at] == '\n' || raw[at] == '\r' {
		at++
	}
	return at
}

// end is the position after the value that begins at at.
func end(raw []byte, at int) int {
	switch raw[at] {
	case '"':
		for at++; raw[at] != '"'; at++ {
			if raw[at] == '\\' {
				at++
			}
		}
		return at + 1
	case '{', '[':
		for depth := 0; ; {
			switch raw[at] {
			case '"':
				at = end(raw, at)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return at + 1
				}
			}
			at++
		}
	default:
		for ; at < len(raw); at++ {
			switch raw[at] {
			case ' ', '\t', '\r', '\n', ',', ']', '}':
				return at
			}
		}
		return at
	}
}

// unquote is the text of a string literal that inspect has approved.
func unquote(raw []byte) string {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return string(inner) // Unreachable: the literal is valid
	}
	return text
}

// parse checks that a body is one well-formed JSON object with nothing in it
// that could not be stored, and returns it.
func parse(body []byte) (value, error) {
	if !json.Valid(body) {
		return value{}, invalidJSON(syntaxProblem(body))
	}
	body = bytes.TrimSpace(body)
	root := value{body, "", -1}
	if body[0] != '{' {
		return value{}, invalidJSON("The body must be a JSON object, not " + root.kind() + ".")
	}
	if problem := inspect(body); problem != "" {
		return value{}, invalidJSON(problem)
	}
	return root, nil
}

// syntaxProblem says what is wrong with a body that is not JSON.
func syntaxProblem(body []byte) string {
	if len(bytes.TrimSpace(body)) == 0 {
		return "The body is empty; it must be a JSON object."
	}
	var syntax *json.SyntaxError
	var raw json.RawMessage
	if err := json.Unmarshal(body, &raw); errors.As(err, &syntax) {
		return fmt.Sprintf("The body is not JSON: %s, at byte %d.", syntax.Error(), syntax.Offset)
	}
	return "The body is not JSON."
}

// inspect walks over a well-formed body once and says, with its path, what in
// it could not be stored or answered: text that is not Unicode or holds a NUL,
// nesting without end. It keeps no more than a stack of maxDepth frames.
func inspect(body []byte) string {
	type frame struct {
		array bool
		index int
		name  []byte // of the present member, a literal
	}
	var stack []frame
	path := func(key bool) string {
		var b strings.Builder
		for i, f := range stack {
			switch {
			case key && i == len(stack)-1: // the fault is in the name itself
			case f.array:
				fmt.Fprintf(&b, "[%d]", f.index)
			case f.name != nil:
				if b.Len() > 0 {
					b.WriteByte('.')
				}
				b.WriteString(clip(strings.ToValidUTF8(unquote(f.name), "?")))
			}
		}
		if b.Len() == 0 {
			return "The body"
		}
		return b.String()
	}
	expectName := false
	for at := 0; at < len(body); {
		switch c := body[at]; c {
		case '{', '[':
			if len(stack) == maxDepth {
				return fmt.Sprintf("%s nests deeper than %d levels.", path(false), maxDepth)
			}
			stack = append(stack, frame{array: c == '['})
			expectName = c == '{'
			at++
		case '}', ']':
			stack = stack[:len(stack)-1]
			expectName = false
			at++
		case ',':
			top := &stack[len(stack)-1]
			top.index++
			expectName = !top.array
			at++
		case '"':
			stop := end(body, at)
			literal := body[at:stop]
			if problem := textProblem(literal[1 : len(literal)-1]); problem != "" {
				if expectName {
					return path(true) + " has a field whose name " + problem + "."
				}
				return path(false) + " " + problem + "."
			}
			if expectName {
				stack[len(stack)-1].name = literal
				expectName = false
			}
			at = stop
		default:
			at++
		}
	}
	return ""
}

// textProblem says why the inside of a string literal is no text for us.
func textProblem(inner []byte) string {
	if !utf8.Valid(inner) {
		return "is not valid UTF-8"
	}
	for {
		i := bytes.IndexByte(inner, '\\')
		if i < 0 {
			return ""
		}
		if inner[i+1] != 'u' {
			inner = inner[i+2:]
			continue
		}
		unit := hex4(inner[i+2 : i+6])
		inner = inner[i+6:]
		switch {
		case unit == 0:
			return "holds a NUL character"
		case !utf16.IsSurrogate(unit):
		case len(inner) >= 6 && inner[0] == '\\' && inner[1] == 'u' &&
			utf16.DecodeRune(unit, hex4(inner[2:6])) != utf8.RuneError:
			inner = inner[6:]
		default:
			return "holds half a surrogate pair, which is no character"
		}
	}
}

func hex4(digits []byte) rune {
	n, err := strconv.ParseUint(string(digits), 16, 16)
	if err != nil {
		return 0 // Unreachable: the literal is valid
	}
	return rune(n)
}

// clip keeps what a caller wrote short enough for a message.
func clip(text string) string {
	const most = 60
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most]) + "…"
}
