package webhook

import (
	"fmt"
	"strings"
	"unicode"

	"signalbox/queue"
)

// DefaultPrefix begins a long command unless the configuration says otherwise.
const DefaultPrefix = "/signalbox"

// maxCommand bounds what is kept and quoted of a command's line, in characters.
const maxCommand = 200

// shortForms are commands that need no prefix.
var shortForms = map[string]string{"/merge": queue.VerbMerge, "/cancel": queue.VerbCancel}

// ParseCommand finds the command of a comment or a review:
//
//	/signalbox merge [-p|--priority=<name|0-255>] [--no-batch] [--force]
//	/signalbox stack [-t|--title "<title>"] [-p|--priority=…] [--no-batch]
//	/signalbox cancel | restart | status | help
//	/merge …   /cancel
//
// ok is false when there is none. The rules:
//
//   - A command is a line of its own that begins with one of prefixes or a
//     short form. A line in a quote, a code block or an HTML comment, a list
//     item, and a word in the middle of a sentence are no commands.
//   - Prefixes, verbs, flags and priority names are read in any case, because
//     a phone writes "/Merge". A prefix may be followed by a colon.
//   - Nothing is guessed. An unknown word or flag, a flag given twice, a
//     priority that is none (it is never clamped), or a prefix without a verb
//     make the command invalid, with a sentence that says why.
//   - A title with spaces stands in quotation marks, straight ones or those
//     that phones make of them. One that is not closed is invalid.
//   - A comment asks for one thing. The same command twice is that command;
//     two that differ are invalid.
//
// The texts of the result are bounded, and what they repeat of the comment
// stands in code spans, where it mentions nobody.
func ParseCommand(body string, prefixes []string) (c queue.Command, ok bool) {
	for text := range prose(body) {
		next, found := parseLine(text, prefixes)
		switch {
		case !found:
		case !ok:
			c, ok = next, true
		case !same(c, next):
			return invalid(c.Text, "The comment has more than one command (%s and %s), so none was followed.",
				code(c.Text), code(next.Text)), true
		}
	}
	return c, ok
}

// same reports whether two commands ask for the same, however they are written.
func same(a, b queue.Command) bool {
	a.Text, b.Text = "", ""
	return a == b
}

// parseLine reads one line; found is false when it is no command at all.
func parseLine(text string, prefixes []string) (c queue.Command, found bool) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return queue.Command{}, false
	}
	if !isCommand(words[0], prefixes) {
		return queue.Command{}, false
	}
	words, closed := fields(text)
	text = line(text, maxCommand)
	if !closed {
		return invalid(text, "A quotation mark is not closed in %s.", code(text)), true
	}
	if verb, short := shortForms[strings.ToLower(words[0])]; short {
		return parseVerb(text, verb, words[1:]), true
	}
	if len(words) == 1 {
		return invalid(text, "%s does not say what to do.", code(text)), true
	}
	return parseVerb(text, strings.ToLower(words[1]), words[2:]), true
}

// isCommand reports whether a line that begins with a word is a command.
func isCommand(word string, prefixes []string) bool {
	return shortForms[strings.ToLower(word)] != "" || isPrefix(word, prefixes)
}

// quoteMarks begin a text with spaces, and end it. Phones turn straight ones
// into the others.
const quoteMarks = "\"\u201c\u201d\u201e"

// fields splits a line into words. A text in quotation marks is one word, or
// part of one, without the marks; closed is false when the last has no end.
func fields(text string) (words []string, closed bool) {
	var word strings.Builder
	inside, any := false, false
	for _, c := range text {
		switch {
		case strings.ContainsRune(quoteMarks, c):
			inside, any = !inside, true
		case unicode.IsSpace(c) && !inside:
			if any {
				words = append(words, word.String())
			}
			word.Reset()
			any = false
		default:
			word.WriteRune(c)
			any = true
		}
	}
	if any {
		words = append(words, word.String())
	}
	return words, !inside
}

func isPrefix(word string, prefixes []string) bool {
	word = strings.TrimSuffix(word, ":")
	for _, p := range prefixes {
		if strings.EqualFold(word, strings.TrimSuffix(p, ":")) {
			return true
		}
	}
	return false
}

func parseVerb(text, verb string, rest []string) queue.Command {
	switch verb {
	case queue.VerbMerge, queue.VerbStack:
		return parseMerge(text, verb, rest)
	case queue.VerbCancel, queue.VerbRestart, queue.VerbStatus, queue.VerbHelp:
		if len(rest) > 0 {
			return invalid(text, "%s takes nothing after it, but %s is there.", code(verb), code(rest[0]))
		}
		return queue.Command{Verb: verb, Text: text}
	default:
		return invalid(text, "%s is not a command.", code(verb))
	}
}

// parseMerge reads the options of merge and of stack. Only the first can force:
// a stack is more than its author has looked at; only the second has a title,
// because that of a pull request by itself is the pull request's.
func parseMerge(text, verb string, words []string) queue.Command {
	c := queue.Command{Verb: verb, Text: text}
	for len(words) > 0 {
		var twice bool
		flag, value, joined := strings.Cut(words[0], "=")
		flag, words = strings.ToLower(flag), words[1:]
		switch {
		case flag == "-p" || flag == "--priority":
			if !joined && len(words) > 0 {
				value, words = words[0], words[1:]
			}
			n, ok := queue.ParsePriority(value)
			if !ok {
				return invalid(text, "%s is not a priority: use %s, or a number from 0 to 255.",
					code(value), strings.Join(queue.PriorityNames(), ", "))
			}
			twice, c.Priority, c.PriorityGiven = c.PriorityGiven, n, true
		case flag == "--no-batch" && !joined:
			twice, c.NoBatch = c.NoBatch, true
		case verb == queue.VerbStack && (flag == "-t" || flag == "--title"):
			if !joined && len(words) > 0 {
				value, words = words[0], words[1:]
			}
			if value = line(value, maxTitle); value == "" {
				return invalid(text, "%s needs a title after it.", code(flag))
			}
			twice, c.Title = c.Title != "", value
		case verb == queue.VerbMerge && flag == "--force" && !joined:
			twice, c.Force = c.Force, true
		case joined && (flag == "--no-batch" || verb == queue.VerbMerge && flag == "--force"):
			return invalid(text, "%s takes no value.", code(flag))
		default:
			return invalid(text, "%s is not an option of %s.", code(flag), code(verb))
		}
		if twice {
			return invalid(text, "%s is given twice.", code(flag))
		}
	}
	return c
}

func invalid(text, format string, args ...any) queue.Command {
	return queue.Command{Verb: queue.VerbInvalid, Text: text, Problem: fmt.Sprintf(format, args...)}
}

// code quotes a piece of a comment so that it stays a piece of text: short,
// one line, in a code span that it cannot leave.
func code(text string) string {
	const enough = 40
	text = strings.Map(func(c rune) rune {
		if c == '`' || !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, strings.ToValidUTF8(text, ""))
	if short := cut(text, enough); short != text {
		text = short + "…"
	}
	if strings.TrimSpace(text) == "" {
		return "(nothing)"
	}
	return "`" + text + "`"
}
