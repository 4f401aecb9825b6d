package mirror

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"

	"signalbox/queue"
)

// maxBody is how much of a description a commit message takes, in characters.
const maxBody = 20_000

// body is what stands under the title of a step's commit.
func (c *clone) body(ctx context.Context, s queue.StepSpec) (string, error) {
	if c.src.Body == nil {
		return "", nil
	}
	text, err := c.src.Body(ctx, s)
	if err != nil {
		return "", fmt.Errorf("read the description of pull request %d: %w", s.PR, err)
	}
	return harmless(text), nil
}

var (
	titleLine   = regexp.MustCompile(`(?im)^[ \t]*merge-commit-title:.*$`)
	emptyLines  = regexp.MustCompile(`\n{3,}`)
	coAuthorOff = regexp.MustCompile(coAuthor.String() + `\n?`)
	trailerLine = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*: \S.*$`)
)

// harmless turns a description into text that says the same and does nothing:
// no hidden comments, no control characters, no mentions, and not the line
// that names the commit's title.
func harmless(text string) string {
	text = unhidden(strings.ReplaceAll(text, "\r\n", "\n"), "", func(r rune) rune {
		switch r {
		case '\n', '\t':
			return r
		case '\r', '\u2028', '\u2029':
			return '\n'
		}
		return -1
	})
	lines := strings.Split(uncalled(titleLine.ReplaceAllString(text, "")), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t")
	}
	text = strings.TrimSpace(emptyLines.ReplaceAllString(strings.Join(lines, "\n"), "\n\n"))
	if runes := []rune(text); len(runes) > maxBody {
		text = strings.TrimSpace(string(runes[:maxBody])) + "…"
	}
	return text
}

// compose puts a message together. Trailers, those at the end of the body too,
// are its last paragraph, and everybody is a co-author once: those given, then
// those that the body names, but for whom author says that they are the author.
func compose(title, body string, coAuthors []identity, author func(email string) bool) string {
	var trailers, credits []string
	seen := map[string]bool{}
	for _, m := range coAuthor.FindAllStringSubmatch(body, -1) {
		coAuthors = append(coAuthors, identity{m[1], m[2]})
	}
	for _, p := range coAuthors {
		name, email := person(p.name), address(p.email)
		if key := strings.ToLower(email); name != "" && email != "" && !seen[key] && !author(key) {
			seen[key] = true
			credits = append(credits, fmt.Sprintf("Co-authored-by: %s <%s>", name, email))
		}
	}
	body = strings.TrimSpace(emptyLines.ReplaceAllString(coAuthorOff.ReplaceAllString(body, ""), "\n\n"))
	paragraphs := strings.Split(body, "\n\n")
	if last := strings.Split(paragraphs[len(paragraphs)-1], "\n"); allTrailers(last) {
		trailers, paragraphs = last, paragraphs[:len(paragraphs)-1]
	}
	parts := []string{title}
	if body = strings.Join(paragraphs, "\n\n"); body != "" {
		parts = append(parts, body)
	}
	if trailers = append(trailers, credits...); len(trailers) > 0 {
		parts = append(parts, strings.Join(trailers, "\n"))
	}
	return strings.Join(parts, "\n\n") + "\n"
}

func allTrailers(lines []string) bool {
	for _, line := range lines {
		if !trailerLine.MatchString(line) {
			return false
		}
	}
	return true
}

// checkKey refuses a signing key with which commits could not be signed, or
// not the same way twice.
func (m *Mirrors) checkKey() error {
	key := m.cfg.SigningKey
	if key == "" {
		return nil
	}
	cmd := exec.CommandContext(m.life, "ssh-keygen", "-y", "-P", "", "-f", key)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return fmt.Errorf("mirror: signing key %s: it must be an OpenSSH private key without a passphrase that only its owner can read: %s", key, strings.TrimSpace(string(exit.Stderr)))
	case err != nil:
		return fmt.Errorf("mirror: signing commits needs the program ssh-keygen, of OpenSSH: %w", err)
	}
	kind, _, _ := strings.Cut(string(out), " ")
	if kind != "ssh-ed25519" && kind != "ssh-rsa" {
		return fmt.Errorf("mirror: signing key %s is of the kind %.40s; use an Ed25519 or RSA key, which sign the same commit the same way each time", key, kind)
	}
	return nil
}
