package webhook

import (
	"iter"
	"strings"
)

// prose yields the lines of Markdown that the author says in their own voice,
// without leading and trailing space: no quote, no code block (fenced or
// indented), no HTML comment. It is not a whole Markdown parser. Where it is
// unsure it leaves the line out, because a command that was not meant costs
// more than one that must be repeated; with one exception: a line directly
// below a quote is the author's, though Markdown draws it inside the quote,
// because people answer so.
func prose(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		text = strings.ReplaceAll(text, "\r\n", "\n")
		text = strings.ReplaceAll(text, "\r", "\n")
		var fence string // of the open code block, "" outside one
		comment := false // inside <!-- … -->
		for raw := range strings.SplitSeq(text, "\n") {
			if fence != "" {
				if closes(raw, fence) {
					fence = ""
				}
				continue
			}
			var visible string
			visible, comment = withoutComments(raw, comment)
			if quoted(visible) {
				continue
			}
			if fence = opens(visible); fence != "" {
				continue
			}
			if indented(visible) {
				continue
			}
			if visible = strings.TrimSpace(visible); visible != "" && !yield(visible) {
				return
			}
		}
	}
}

// withoutComments removes HTML comments from a line; inside tells whether one
// is open before it, and after it.
func withoutComments(raw string, inside bool) (visible string, after bool) {
	var b strings.Builder
	for {
		if inside {
			_, rest, closed := strings.Cut(raw, "-->")
			if !closed {
				return b.String(), true
			}
			raw, inside = rest, false
		}
		before, rest, opened := strings.Cut(raw, "<!--")
		b.WriteString(before)
		if !opened {
			return b.String(), false
		}
		raw, inside = rest, true
	}
}

func quoted(line string) bool { return strings.HasPrefix(strings.TrimLeft(line, " \t"), ">") }

// indented reports whether a line is set in by four columns or more, which
// makes it code.
func indented(line string) bool {
	columns := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			columns++
		case '\t':
			columns += 4 - columns%4
		default:
			return columns >= 4
		}
	}
	return false
}

// opens returns the fence that begins a code block on this line, "" if none
// does. The block may stand in a list item.
func opens(line string) string {
	line = withoutListMarkers(line)
	for _, mark := range []string{"`", "~"} {
		rest := strings.TrimLeft(line, mark)
		if n := len(line) - len(rest); n >= 3 && (mark == "~" || !strings.Contains(rest, mark)) {
			return line[:n]
		}
	}
	return ""
}

// closes reports whether a line ends the block that fence began: nothing but
// as many of the same marks, or more.
func closes(line, fence string) bool {
	line = strings.TrimSpace(line)
	return len(line) >= len(fence) && strings.Trim(line, fence[:1]) == ""
}

// withoutListMarkers cuts what makes a line a list item: "- ", "* ", "+ ",
// "1. ", "1) ", also nested on one line.
func withoutListMarkers(line string) string {
	for {
		line = strings.TrimLeft(line, " \t")
		rest := strings.TrimLeft(line, "0123456789")
		if len(rest) == len(line) {
			rest = cutOne(line, "-*+")
		} else {
			rest = cutOne(rest, ".)")
		}
		if !strings.HasPrefix(rest, " ") && !strings.HasPrefix(rest, "\t") {
			return line
		}
		line = rest
	}
}

// cutOne cuts one leading byte that is in set; "" if there is none.
func cutOne(text, set string) string {
	if text == "" || !strings.Contains(set, text[:1]) {
		return ""
	}
	return text[1:]
}
