package mirror

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"signalbox/queue"
)

// maxTitle is how much of a title a commit's first line takes, in characters.
const maxTitle = 256

// Title is the first line of the commit that a step becomes. The text of a
// pull request is inert in it: one line of valid UTF-8 that begins neither a
// comment nor a trailer, mentions nobody and hides nothing.
func Title(method queue.MergeMethod, s queue.StepSpec) string {
	if given := inert(s.CommitTitle); given != "" {
		return fmt.Sprintf("%s (#%d)", given, s.PR)
	}
	title := inert(s.Title)
	merge := fmt.Sprintf("Merge pull request #%d", s.PR)
	if by := inert(s.Author.Login); by != "" {
		merge += " from " + by // the beginning that tools know from the host's own merges
	}
	switch {
	case title == "":
		return merge
	case method == queue.MergeCommit:
		return merge + ": " + title
	default:
		return fmt.Sprintf("%s (#%d)", title, s.PR)
	}
}

var (
	htmlComment  = regexp.MustCompile(`(?s)<!--.*?(?:-->|$)`)
	mention      = regexp.MustCompile(`(^|[^\pL\pN_.+/-])@([\pL\pN])`)
	looksTrailer = regexp.MustCompile(`(?i)^[a-z][a-z-]*-by\s*:`)
)

// inert turns a title into harmless text of at most maxTitle characters.
func inert(text string) string {
	text = unhidden(text, " ", func(rune) rune { return ' ' })
	text = uncalled(strings.Join(strings.Fields(text), " "))
	if strings.HasPrefix(text, "#") || looksTrailer.MatchString(text) {
		text = "PR: " + text
	}
	if utf8.RuneCountInString(text) > maxTitle {
		text = string([]rune(text)[:maxTitle-1]) + "…"
	}
	return text
}

// unhidden is a text in valid UTF-8 that hides nothing: no invisible characters,
// then no comments, in whose place it puts something else. In the other order an
// invisible character would hide what those beside it make together. control says
// what becomes of a control character or another end of a line; -1 = nothing.
func unhidden(text, comment string, control func(rune) rune) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.Is(unicode.Bidi_Control, r), r == '\ufeff':
			return -1 // they would show the text in another order than it is in
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			return control(r)
		}
		return r
	}, strings.ToValidUTF8(text, "�"))
	for { // a comment that goes may leave another
		without := htmlComment.ReplaceAllString(text, comment)
		if without == text {
			return text
		}
		text = without
	}
}

// uncalled keeps the letters of mentions and puts an invisible character behind
// each @, so that nobody is called up each time the commit is seen in another place.
func uncalled(text string) string { return mention.ReplaceAllString(text, "${1}@\u200b${2}") }

// person makes a name that git takes: no angle brackets, no control
// characters, and not empty unless it was.
func person(name string) string { return field(name, 256) }

// address does the same for an e-mail address.
func address(email string) string { return strings.ReplaceAll(field(email, 320), " ", "") }

func field(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '<', r == '>', unicode.Is(unicode.Bidi_Control, r):
			return -1
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	// Git itself cuts these off at both ends, and nothing may be left of it.
	text = strings.Trim(strings.Join(strings.Fields(text), " "), ".,:;\"\\' ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most])
	}
	return text
}

var coAuthor = regexp.MustCompile(`(?im)^co-authored-by:[ \t]*([^<>\n]*?)[ \t]*<([^<>\n]+)>[ \t]*$`)

// credit says who wrote a squashed pull request: its author, with name and
// address from one identity, and everybody else who wrote a commit or stands
// in one as a co-author, each once. mine tells the author's addresses.
func credit(author queue.Actor, host string, commits []Commit, mine func(email string) bool) (identity, []identity) {
	var all []identity
	for _, c := range commits {
		all = append(all, c.author)
		for _, m := range coAuthor.FindAllStringSubmatch(c.Message, -1) {
			all = append(all, identity{m[1], m[2]})
		}
	}
	me := identity{author.Login, noReply(author, host)}
	if author.Login == "" && len(all) > 0 {
		me = all[0] // a deleted account: whoever wrote the first commit
	}
	for _, p := range all {
		if mine(strings.ToLower(p.email)) && person(p.name) != "" {
			me = p
			break
		}
	}
	seen := map[string]bool{strings.ToLower(me.email): true}
	var others []identity
	for _, p := range all {
		email := strings.ToLower(p.email)
		if seen[email] || mine(email) || person(p.name) == "" || address(p.email) == "" {
			continue
		}
		seen[email] = true
		others = append(others, p)
	}
	return me, others
}

// noReply is the address under which the host knows somebody without telling
// their own.
func noReply(a queue.Actor, host string) string {
	if a.Login == "" {
		return ""
	}
	if a.ID == 0 {
		return a.Login + "@users.noreply." + host
	}
	return fmt.Sprintf("%d+%s@users.noreply.%s", a.ID, a.Login, host)
}

// noReplies are all forms of that address, in lower case.
func noReplies(a queue.Actor, host string) []string {
	if a.Login == "" {
		return nil
	}
	var all []string
	for _, h := range []string{host, "github.com"} {
		all = append(all, strings.ToLower(noReply(a, h)), strings.ToLower(noReply(queue.Actor{Login: a.Login}, h)))
	}
	return all
}

// squashMessage is the message of a squashed pull request and its author.
func (c *clone) squashMessage(ctx context.Context, s queue.StepSpec, commits []Commit) (string, identity, error) {
	host, _, _ := strings.Cut(c.src.Repo.Host, ":")
	mine := noReplies(s.Author, host)
	known := slices.ContainsFunc(commits, func(k Commit) bool { return slices.Contains(mine, strings.ToLower(k.author.email)) })
	if !known && len(commits) > 0 && c.src.Emails != nil && s.Author.Login != "" {
		more, err := c.src.Emails(ctx, s)
		if err != nil {
			return "", identity{}, fmt.Errorf("find the author of pull request %d: %w", s.PR, err)
		}
		mine = append(mine, more...)
	}
	author, others := credit(s.Author, host, commits, func(email string) bool { return slices.Contains(mine, email) })
	body, err := c.body(ctx, s)
	if err != nil {
		return "", identity{}, err
	}
	return compose(Title(queue.Squash, s), body, others, func(email string) bool {
		return email == strings.ToLower(author.email) || slices.Contains(mine, email)
	}), author, nil
}
