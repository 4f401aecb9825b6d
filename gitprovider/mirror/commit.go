package mirror

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Commit is a commit as it was read.
type Commit struct {
	ID, Tree string
	Parents  []string
	Message  string // ends with one newline
	When     int64  // the committer's time, in seconds since 1970

	author     identity
	authorDate string // "1700000000 +0100"
}

// identity is one person's name and e-mail address. They always come from one
// place: a name is never put together with somebody else's address.
type identity struct{ name, email string }

// commitFormat ends each of eight fields of a commit with NUL, which no field
// can hold.
const (
	commitFormat = "--format=tformat:%H%x00%T%x00%P%x00%ct%x00%an%x00%ae%x00%ad%x00%B"
	commitFields = 8
)

// commits reads commits with git log and the given arguments.
func (c *clone) commits(ctx context.Context, args ...string) ([]Commit, error) {
	args = append([]string{"log", "-z", "--date=raw", "--no-show-signature", "--no-notes", "--encoding=UTF-8", commitFormat}, args...)
	out, err := c.local(ctx, job{args: args})
	if err != nil || len(out) == 0 {
		return nil, err
	}
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(fields)%commitFields != 0 {
		return nil, fmt.Errorf("read commits: git log gave %d fields: %w", len(fields), errBroken)
	}
	var commits []Commit
	for f := fields; len(f) > 0; f = f[commitFields:] {
		when, err := strconv.ParseInt(f[3], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read commit %s: its time is %q: %w", f[0], f[3], errBroken)
		}
		commits = append(commits, Commit{
			ID: f[0], Tree: f[1], Parents: strings.Fields(f[2]), When: when,
			author: identity{f[4], f[5]}, authorDate: f[6],
			Message: strings.TrimRight(f[7], "\n") + "\n",
		})
	}
	return commits, nil
}

// readAhead reads commits that will be asked for, all with one run of git. One
// that is not there is found missing by whoever asks for it.
func (c *clone) readAhead(ctx context.Context, ids []string) {
	if len(ids) < 2 {
		return
	}
	commits, err := c.commits(ctx, append([]string{"--no-walk=unsorted", "--end-of-options"}, ids...)...)
	if err != nil {
		return
	}
	for _, commit := range commits {
		c.read[commit.ID] = commit
	}
}

// commit reads one commit that is in the mirror.
func (c *clone) commit(ctx context.Context, id string) (Commit, error) {
	if commit, known := c.read[id]; known {
		return commit, nil
	}
	commits, err := c.commits(ctx, "--no-walk", "--end-of-options", id)
	if err != nil {
		return Commit{}, err
	}
	if len(commits) != 1 {
		return Commit{}, fmt.Errorf("read commit %s: %w", id, errBroken)
	}
	c.read[id] = commits[0]
	return commits[0], nil
}

// draft is a commit to be written.
type draft struct {
	tree       string
	parents    []string
	message    string
	author     identity // zero: the committer
	authorDate string   // "": the committer's
	when       int64
	kept       bool // it lands, so it is signed where there is a key
}

// rawDate is a date that git takes back as it gave it.
var rawDate = regexp.MustCompile(`^\d{1,12} [+-]\d{4}$`)

// write makes a commit and returns its id. The same draft makes the same id.
func (c *clone) write(ctx context.Context, d draft) (string, error) {
	args := []string{"commit-tree", "--no-gpg-sign", "-F", "-"}
	if d.kept && c.m.cfg.SigningKey != "" {
		args[1] = "--gpg-sign" // with the key that the environment names
	}
	for _, p := range d.parents {
		args = append(args, "-p", p)
	}
	args = append(args, "--end-of-options", d.tree)
	date := fmt.Sprintf("@%d +0000", max(d.when, 0))
	authored := date
	if rawDate.MatchString(d.authorDate) {
		authored = "@" + d.authorDate
	}
	env := []string{"GIT_COMMITTER_DATE=" + date, "GIT_AUTHOR_DATE=" + authored}
	email := address(d.author.email)
	if name := cmp.Or(person(d.author.name), email); name != "" {
		env = append(env, "GIT_AUTHOR_NAME="+name, "GIT_AUTHOR_EMAIL="+email)
	}
	out, err := c.local(ctx, job{args: args, env: env, stdin: d.message})
	if err != nil {
		return "", fmt.Errorf("write commit: %w", err)
	}
	id := strings.TrimSpace(string(out))
	if !validCommit(id) {
		return "", fmt.Errorf("write commit: git answered %.80q: %w", id, errBroken)
	}
	return id, nil
}
