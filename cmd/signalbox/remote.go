package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"signalbox/api"
	"signalbox/flaky"
)

// connection says which server to call, and as whom. It is part of every
// command that calls one.
type connection struct {
	URL       string        `name:"url" env:"SIGNALBOX_URL" help:"Address of Signalbox, such as https://signalbox.example.com."`
	Token     string        `env:"SIGNALBOX_TOKEN" help:"API token. Better in the variable, where other users of the machine do not see it."`
	TokenFile string        `name:"token-file" env:"SIGNALBOX_TOKEN_FILE" help:"File that holds the token."`
	Timeout   time.Duration `default:"1m" help:"How long to try when Signalbox does not answer or has too much to do."`
}

// client returns a client of the server. Its error names everything that is
// missing.
func (c connection) client() (*api.Client, error) { return c.clientFor(api.StandIn{}) }

// clientFor returns a client that may do without a token where something stands
// in for it.
func (c connection) clientFor(in api.StandIn) (*api.Client, error) {
	token, tokenErr := c.token(in != api.StandIn{})
	client, err := api.New(api.Config{URL: c.URL, Token: token, StandIn: in, UserAgent: userAgent(), Patience: c.Timeout, Timeout: c.Timeout})
	if err != nil {
		err = errors.New("the address of Signalbox: set SIGNALBOX_URL or --url, such as https://signalbox.example.com")
	}
	return client, errors.Join(err, tokenErr)
}

// errNoToken is that no token is set.
var errNoToken = errors.New("a token: set SIGNALBOX_TOKEN or SIGNALBOX_TOKEN_FILE (CI keeps secrets from pull requests of forks)")

// token is the token from where it is kept. optional: there need not be one.
func (c connection) token(optional bool) (string, error) {
	token := strings.TrimSpace(c.Token)
	if token == "" && c.TokenFile != "" {
		text, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return "", fmt.Errorf("the token: %w", err)
		}
		token = strings.TrimSpace(string(text))
	}
	switch {
	case token == "" && !optional:
		return "", errNoToken
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", errors.New("the token: there are characters in it that no token has, such as a line break")
	}
	return token, nil
}

// target says which queue a command is about.
type target struct {
	connection `group:"connection"`
	Repo       string `env:"SIGNALBOX_REPO" group:"target" help:"Repository, as host/owner/name, or owner/name on github.com. Default: that of the CI job, or of the checkout around."`
	Branch     string `short:"b" env:"SIGNALBOX_BRANCH" group:"target" help:"Branch of the queue. Default: the base branch of the CI job's pull request, or that of the repository's only queue."`
}

// errNoRepo is that nobody said which repository is meant.
var errNoRepo = wrongUse("", "which repository is meant is not known: give --repo host/owner/name, or call this from a checkout")

// place finds out which repository is meant. What the CI system and the
// checkout know comes along.
func (t target) place(ctx context.Context) (flaky.Facts, error) {
	f, _ := ciFacts(os.Getenv)
	around(ctx, &f)
	if t.Repo != "" {
		if f.Host, f.Owner, f.Name = repoOf(t.Repo); f.Name == "" {
			return f, wrongUse("", "repo is %q: give host/owner/name", t.Repo)
		}
	}
	if f.Owner == "" || f.Name == "" {
		return f, errNoRepo
	}
	if f.Host == "" {
		f.Host = "github.com"
	}
	return f, nil
}

// find finds the queue. The server is asked only when nobody has said which
// branch is meant.
func (t target) find(ctx context.Context) (*api.Queue, flaky.Facts, error) {
	return t.findAs(ctx, api.StandIn{})
}

// findAs finds it for a caller who may do without a token; see clientFor.
func (t target) findAs(ctx context.Context, in api.StandIn) (*api.Queue, flaky.Facts, error) {
	c, err := t.clientFor(in)
	if err != nil {
		return nil, flaky.Facts{}, missing(err)
	}
	f, err := t.place(ctx)
	if err != nil {
		return nil, f, err
	}
	q := &api.Queue{Client: c, Host: f.Host, Owner: f.Owner, Name: f.Name, Branch: t.Branch}
	if q.Branch == "" {
		q.Branch = f.Target
	}
	if q.Branch == "" {
		q.Branch, err = onlyQueue(ctx, q)
	}
	return q, f, err
}

// missing is the error about what a connection lacks.
func missing(err error) error {
	lacks := flatten(err)
	for i := range lacks {
		lacks[i] = wrongUse("", "this is missing: %w", lacks[i])
	}
	return errors.Join(lacks...)
}

// onlyQueue is the branch of the only queue that a repository has.
func onlyQueue(ctx context.Context, q *api.Queue) (string, error) {
	var s api.Status
	if err := q.Get(ctx, "status", &s); err != nil {
		return "", err
	}
	var branches []string
	for _, known := range s.Queues {
		if strings.EqualFold(known.Repo.Owner, q.Owner) && strings.EqualFold(known.Repo.Name, q.Name) {
			branches = append(branches, known.Branch)
		}
	}
	switch len(branches) {
	case 1:
		return branches[0], nil
	case 0:
		return "", &api.Error{Host: q.Server(), Status: 404, Code: "QUEUE_NOT_FOUND", Message: fmt.Sprintf("There is no merge queue in %s that the token can see.", q.Repo())}
	}
	return "", wrongUse("", "%s has several queues, for %s: say with --branch which one is meant", q.Repo(), strings.Join(branches, ", "))
}
