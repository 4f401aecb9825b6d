package rest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"signalbox/flaky"
)

// headerFact is what the headers begin with that say of an upload what the
// query may say, too: X-Signalbox-Sha is sha.
const headerFact = "X-Signalbox-"

// maxFact bounds what is said of an upload, in bytes.
const maxFact = 1000

// sentFacts reads what is said of an upload, in the query or else in headers.
type sentFacts struct {
	c        *call
	problems []string
}

func (s *sentFacts) text(name string) string {
	given := s.c.query.Get(name)
	if given == "" {
		given = s.c.header.Get(headerFact + strings.ReplaceAll(name, "_", "-"))
	}
	given = strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(given, "\uFFFD"), "\x00", "\uFFFD"))
	if len(given) > maxFact {
		s.problems = append(s.problems, fmt.Sprintf("%s must not be longer than %d bytes.", name, maxFact))
		return ""
	}
	return given
}

func (s *sentFacts) required(name string) string {
	given := s.text(name)
	if given == "" {
		s.problems = append(s.problems, fmt.Sprintf("%s is missing: say it in the query, or in the header %s%s.", name, headerFact, strings.ReplaceAll(name, "_", "-")))
	}
	return given
}

func (s *sentFacts) commit(name string, must bool) string {
	given := s.text(name)
	if must {
		given = s.required(name)
	}
	given = lower(given)
	if given == "" {
		return ""
	}
	if len(given) != 40 && len(given) != 64 || strings.Trim(given, "0123456789abcdef") != "" {
		s.problems = append(s.problems, name+" must be the whole id, 40 hexadecimal digits.")
	}
	return given
}

func (s *sentFacts) number(name string, most int) int {
	given := s.text(name)
	if given == "" {
		return 0
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < 0 || n > most {
		s.problems = append(s.problems, fmt.Sprintf("%s must be a number from 0 to %d.", name, most))
	}
	return n
}

func (s *sentFacts) flag(name string) bool {
	switch given := lower(s.text(name)); given {
	case "", "0", "false":
		return false
	case "1", "true":
		return true
	}
	s.problems = append(s.problems, name+" must be true or false.")
	return false
}

// read takes everything that is said of an upload.
func (s *sentFacts) read() flaky.Sent {
	sent := flaky.Sent{Trusted: true, ContentType: s.c.header.Get("Content-Type"), Variant: s.text("variant"), Expected: s.number("expected", 100_000), Infrastructure: s.flag("infrastructure")}
	sent.Facts = flaky.Facts{
		CI: s.text("ci"), Host: s.text("host"), Owner: s.required("owner"), Name: s.required("name"), Commit: s.commit("sha", true), Tree: s.commit("tree", false),
		Head: s.commit("head", false), Base: s.commit("base", false), Branch: strings.TrimPrefix(s.text("branch"), "refs/heads/"), Pull: s.number("pr", 1<<31-1),
		Job: s.required("job"), Attempt: max(s.number("attempt", 1<<31-1), 1), Check: s.text("check"), Link: s.text("link"), Fork: s.flag("fork"),
	}
	if s.text("exit_code") != "" {
		code := s.number("exit_code", 255)
		sent.ExitCode = &code
	}
	return sent
}

// keptUpload is the answer to an upload.
type keptUpload struct {
	ID  string `json:"id"`
	New bool   `json:"new"` // false: the same was uploaded before, and counts once
}

// testResults keeps a test report. It is read by a job, a moment later.
func (a *API) testResults(ctx context.Context, c *call) (any, error) {
	facts := sentFacts{c: c}
	sent := facts.read()
	sent.Trusted = !c.anonymous()
	slug := facts.text("org")
	if len(c.body) == 0 {
		facts.problems = append(facts.problems, "The body is empty; it must be a test report.")
	}
	if len(facts.problems) > 0 {
		return nil, invalidRequest(strings.Join(facts.problems[:min(len(facts.problems), maxProblems)], " "))
	}
	if slug == "" {
		slug = c.org.Slug
	}
	p := testPlace{place: place{host: sent.Host, owner: sent.Owner, name: sent.Name}, slug: slug}
	if p.host == "" {
		p.host = a.hostName
	}
	sent.Fork = sent.Fork || c.anonymous()
	repo, err := a.repository(ctx, c, &p)
	if err != nil {
		return nil, err
	}
	content := sha256.Sum256(c.body)
	key := sha256.Sum256(fmt.Appendf(nil, "%x\x00%s\x00%d", content, sent.Job, sent.Attempt))
	id, fresh, err := a.tests.AddUpload(ctx, flaky.Upload{Repository: int64(repo.ID), Received: c.now, Sent: sent}, key, c.body)
	if err != nil {
		return nil, orNotFound(fmt.Errorf("keep a test report: %w", err), notFound(CodeRepositoryNotFound, "There is no repository %s in the organisation.", p.repo()))
	}
	return keptUpload{strconv.FormatInt(id, 10), fresh}, nil
}
