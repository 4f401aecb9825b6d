package texts

import (
	"net/url"
	"strings"
	"unicode"
)

// What others wrote (titles, names, messages of the host) is data. In our
// comments it must not mention anybody, refer to other pull requests, become
// markup or HTML, or hide its meaning with invisible characters. Two functions
// see to that: quoted for names and titles, prose for sentences.

// mostQuoted and mostProse are the lengths, in characters, at which texts of
// others are cut.
const (
	mostQuoted = 120
	mostProse  = 1000
)

// quoted shows a text of others as code, where GitHub looks for neither
// markup nor mentions.
func quoted(text string) string {
	text = visible(text, mostQuoted)
	if text == "" {
		return "(empty)"
	}
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		text = " " + text + " "
	}
	return fence + text + fence
}

// prose shows a sentence that may hold words of others as plain text. What
// Markdown knows is escaped; a word joiner after @ and # keeps GitHub, which
// looks for names and numbers after Markdown is done, from finding any.
func prose(text string) string {
	var b strings.Builder
	text = visible(text, mostProse)
	if strings.IndexFunc(text, func(r rune) bool { return unicode.IsDigit(r) || strings.ContainsRune("-+=", r) }) == 0 {
		b.WriteRune(wordJoiner) // or it could begin a list or underline a heading
	}
	for _, r := range text {
		if strings.ContainsRune("\\`*_[]<>|~&@#$", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
		if r == '@' || r == '#' {
			b.WriteRune(wordJoiner)
		}
	}
	return breakLinks.Replace(b.String())
}

const wordJoiner = '\u2060'

// breakLinks keeps addresses from becoming links by themselves.
var breakLinks = strings.NewReplacer("://", ":\\//", "www.", "www\\.")

// visible makes one line of a text: no control characters, no characters that
// reorder or hide others, single spaces, at most so many characters.
func visible(text string, most int) string {
	var b strings.Builder
	n, space := 0, false
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		switch {
		case unicode.IsSpace(r) || unicode.IsControl(r):
			space = n > 0
			continue
		case unicode.Is(unicode.Cf, r) && r != '\u200D': // a joiner makes one emoji of several
			continue
		}
		if n >= most {
			b.WriteRune('…')
			break
		}
		if space {
			b.WriteByte(' ')
			n++
			space = false
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}

// link shows text, which is inert already, as a link; without an address it
// stays text.
func link(text, address string) string {
	if address == "" {
		return text
	}
	return "[" + text + "](" + address + ")"
}

// outside is an address that somebody else gave, or "" when it is not a web
// address that can stand in Markdown.
func outside(address string) string {
	if len(address) > 2000 {
		return ""
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || (u.Scheme != "https" && u.Scheme != "http") {
		return ""
	}
	safe := strings.NewReplacer("(", "%28", ")", "%29", "<", "%3C", ">", "%3E", " ", "%20", "\\", "%5C", "\"", "%22", "'", "%27", "`", "%60", "[", "%5B", "]", "%5D", "|", "%7C").Replace(u.String())
	if strings.ContainsFunc(safe, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return safe
}

// mention is how a person is called upon, or "" when the login is not one that
// the host gives, or is a bot's.
func mention(login string, bot bool) string {
	if bot || login == "" || len(login) > 39 {
		return ""
	}
	for _, r := range login {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' {
			return ""
		}
	}
	return "@" + login
}

// short is a commit as people write it, shown as code so that the host does
// not make a link of it.
func short(commit string) string {
	if commit == "" {
		return "(none)"
	}
	return quoted(commit[:min(len(commit), 7)])
}
