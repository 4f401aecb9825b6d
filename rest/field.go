package rest

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"signalbox/queue"
)

// The longest texts that a request may name things with, in bytes. The host
// allows less; what is longer would not fit into an index of the database.
const (
	maxHost   = 255
	maxOwner  = 100
	maxName   = 100
	maxBranch = 255
	maxRunID  = 255
	maxStatus = 255 // name of one required status
	maxLabel  = 100
)

// maxStatuses is how many required statuses a queue may name.
const maxStatuses = 500

// place is the queue that a request is about.
type place struct {
	host, owner, name string
	branch            string
}

// repo is host/owner/name, as messages name a repository.
func (p place) repo() string { return p.host + "/" + p.owner + "/" + p.name }

// fields are the two that nearly every request begins with.
func (p *place) fields() []field {
	return []field{p.repoField(), required("targetBranch", text(&p.branch, maxBranch))}
}

// repoField is how every request names a repository.
func (p *place) repoField() field {
	return required("repo", func(f *form, v value) {
		f.object(v, []field{
			required("host", text(&p.host, maxHost)),
			required("owner", text(&p.owner, maxOwner)),
			required("name", text(&p.name, maxName)),
		})
	})
}

// pullRequest reads pr.number into n.
func pullRequest(n *int64) field {
	return required("pr", func(f *form, v value) {
		f.object(v, []field{required("number", pullRequestNumber(n))})
	})
}

// pullRequestNumber reads a number of a pull request. Clients send it as a
// number and, from shells and workflow expressions, as a string of digits.
func pullRequestNumber(n *int64) func(*form, value) {
	return func(f *form, v value) {
		if v.raw[0] == '"' {
			if parsed, ok := decimal(v.text()); ok && parsed >= 1 && parsed <= queue.MaxNumber {
				*n = parsed
				return
			}
		} else if parsed, ok := integerIn(v, 1, queue.MaxNumber); ok {
			*n = parsed
			return
		}
		f.refuse(v, fmt.Sprintf("must be an integer from 1 to %d", queue.MaxNumber))
	}
}

// decimal reads a string of one to ten digits and nothing else.
func decimal(text string) (n int64, ok bool) {
	if len(text) == 0 || len(text) > 10 {
		return 0, false
	}
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// text reads a string that is not empty and not longer than most bytes.
func text(to *string, most int) func(*form, value) {
	return func(f *form, v value) {
		if given, ok := textIn(f, v, most); ok {
			*to = given
		}
	}
}

func textIn(f *form, v value, most int) (string, bool) {
	if v.raw[0] != '"' {
		f.refuse(v, "must be a string, not "+v.kind())
		return "", false
	}
	given := v.text()
	switch {
	case given == "":
		f.refuse(v, "must not be empty")
	case len(given) > most:
		f.refuse(v, fmt.Sprintf("must not be longer than %d bytes", most))
	default:
		return given, true
	}
	return "", false
}

// anyText reads a string, the empty one too.
func anyText(to *string) func(*form, value) {
	return func(f *form, v value) {
		if v.raw[0] != '"' {
			f.refuse(v, "must be a string, not "+v.kind())
			return
		}
		*to = v.text()
	}
}

// anyTextUpTo reads a string that is not longer than most bytes.
func anyTextUpTo(to *string, most int) func(*form, value) {
	return func(f *form, v value) {
		if anyText(to)(f, v); len(*to) > most {
			f.refuse(v, fmt.Sprintf("must not be longer than %d bytes", most))
		}
	}
}

// textWish reads a string into an optional setting, which stays nil when it is not named.
func textWish(to **string, most int) func(*form, value) {
	return func(f *form, v value) {
		if given, ok := textIn(f, v, most); ok {
			*to = &given
		}
	}
}

// integer reads an integer from least to queue.MaxNumber.
func integer(to **int64, least int64) func(*form, value) {
	return integerUpTo(to, least, queue.MaxNumber)
}

// integerUpTo reads an integer from least to most.
func integerUpTo(to **int64, least, most int64) func(*form, value) {
	return func(f *form, v value) {
		n, ok := integerIn(v, least, most)
		if !ok {
			f.refuse(v, fmt.Sprintf("must be an integer from %d to %d", least, most))
			return
		}
		*to = &n
	}
}

func integerIn(v value, least, most int64) (int64, bool) {
	if v.kind() != "a number" {
		return 0, false
	}
	n, ok := whole(v.raw)
	return n, ok && n >= least && n <= most
}

// boolean reads true or false.
func boolean(to **bool) func(*form, value) {
	return func(f *form, v value) {
		if v.kind() != "a boolean" {
			f.refuse(v, "must be true or false, not "+v.kind())
			return
		}
		given := v.raw[0] == 't'
		*to = &given
	}
}

// oneOf reads one of the words, in any case.
func oneOf[E ~string](to **E, words ...E) func(*form, value) {
	return func(f *form, v value) {
		if v.raw[0] == '"' {
			given := lower(v.text())
			for _, word := range words {
				if given == string(word) {
					*to = &word
					return
				}
			}
		}
		f.refuse(v, "must be "+either(words))
	}
}

// lower is the text with A to Z in lower case. Other letters stay as they
// are: no word of ours has any, and none shall match by a fold of Unicode.
func lower(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// either lists words for a message: a, b or c.
func either[E ~string](words []E) string {
	var b strings.Builder
	for i, word := range words {
		switch {
		case i == 0:
		case i == len(words)-1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(string(word))
	}
	return b.String()
}

// statuses reads a list of names of required statuses: none empty, none twice.
func statuses(to **[]string) func(*form, value) {
	return func(f *form, v value) {
		names, seen := []string{}, map[string]bool{}
		if f.array(v, "strings", maxStatuses, func(item value) {
			name, ok := textIn(f, item, maxStatus)
			if !ok {
				return
			}
			if seen[name] {
				f.refuse(item, "repeats a name of the list")
			}
			seen[name] = true
			names = append(names, name)
		}) {
			*to = &names
		}
	}
}

// priority reads 0 to 255 or one of the five names, in any case.
func priority(to **int64) func(*form, value) {
	return func(f *form, v value) {
		if v.raw[0] == '"' {
			given := lower(v.text())
			for _, name := range queue.PriorityNames() {
				if given == name {
					n, _ := queue.ParsePriority(name)
					*to = &n
					return
				}
			}
		} else if n, ok := integerIn(v, queue.Urgent, queue.Lowest); ok {
			*to = &n
			return
		}
		f.refuse(v, fmt.Sprintf("must be an integer from %d to %d, or %s",
			queue.Urgent, queue.Lowest, either(queue.PriorityNames())))
	}
}

// ownerProblem and its siblings say what keeps a text from being a name on
// the host; "" if nothing does. They are asked only when something is made:
// elsewhere a name that cannot exist is simply not found.
func ownerProblem(owner string) string {
	return nameProblem(owner, "_-")
}

func repoProblem(name string) string {
	if name == "." || name == ".." {
		return "is no repository name"
	}
	return nameProblem(name, "._-")
}

func nameProblem(name, extra string) string {
	for _, c := range []byte(name) {
		alphanumeric := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alphanumeric && !strings.ContainsRune(extra, rune(c)) {
			return "may have letters, digits and " + strings.Join(strings.Split(extra, ""), " ") + " only"
		}
	}
	return ""
}

// branchProblem repeats git's rules for names of branches.
func branchProblem(branch string) string {
	const wrong = "is not a name that git allows for a branch"
	if !utf8.ValidString(branch) || strings.HasPrefix(branch, "-") || branch == "@" || branch == "HEAD" ||
		strings.HasPrefix(branch, "refs/") || strings.HasSuffix(branch, ".") ||
		strings.Contains(branch, "..") || strings.Contains(branch, "@{") || strings.ContainsAny(branch, " ~^:?*[\\\x7f") {
		return wrong
	}
	for _, c := range branch {
		if c < ' ' {
			return wrong
		}
	}
	for part := range strings.SplitSeq(branch, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return wrong
		}
	}
	return ""
}
