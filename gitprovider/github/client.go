package github

import (
	"cmp"
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v4"
	"github.com/google/go-github/v60/github"

	"signalbox/gitprovider"
	"signalbox/gitprovider/mirror"
	"signalbox/queue"
)

// Config connects to one host as one App. AppID, PrivateKey and DataDir are
// required; everything else has a default that is right for github.com.
type Config struct {
	// AppID is the App's number.
	AppID int64
	// PrivateKey is the App's RSA private key in PEM form, as the host gave it.
	PrivateKey []byte
	// APIURL is where the REST API is: https://api.github.com if empty,
	// https://HOST/api/v3 for an Enterprise Server.
	APIURL string
	// WebURL is where people and git reach the host. Derived from APIURL if empty.
	WebURL string
	// Host is what repositories call this host in queue.Repo.Host and in the
	// API. Derived from WebURL if empty.
	Host string
	// WebhookURL is where the App's webhooks should go; a preflight compares
	// it. Not compared if empty.
	WebhookURL string
	// DataDir is where mirrors are kept, in a folder "mirrors". Each copy of
	// the program has its own.
	DataDir string
	// BotLogin is the App's account, "signalbox[bot]" if empty. Comments are
	// recognised as ours by it or by AppID, merges by it.
	BotLogin string
	// CommitterName and CommitterEmail are who makes commits; the App's
	// account if empty. Another committer makes other commit ids.
	CommitterName, CommitterEmail string
	// SigningKey is the file of an OpenSSH private key that signs the commits
	// that are made; none if empty. CommitterName and CommitterEmail must then
	// be those of the account of the host that the key's public half is
	// registered with, as a signing key. See mirror.Config.
	SigningKey string
	// CommitBody says what stands in the messages of merge and squash commits
	// under the title: NoBody or DescriptionBody.
	CommitBody CommitBody
	// CommitTitle finds a commit title that a pull request's description
	// asks for. Nil: a line "merge-commit-title: …".
	CommitTitle func(body string) string
	// Git is the git program, "git" if empty.
	Git string
	// MirrorSize bounds the mirror of one repository on disk, in bytes; see
	// mirror.Config.
	MirrorSize int64
	// CloneFilter is the mirror's partial clone filter: "blob:none" if empty, "off" for none.
	CloneFilter string
	// HTTP makes the calls; only its Transport is used. http.DefaultTransport if nil.
	HTTP *http.Client
	// Limits bound what is asked of the host.
	Limits Limits
	// CallTimeout bounds one call, without the time that it waits for its
	// turn; 30 seconds if zero.
	CallTimeout time.Duration
	// OnCall hears of every call that was answered, or was not (status 0).
	// endpoint is one of a bounded set such as "GET /repos/:/:/pulls/:".
	OnCall func(endpoint string, status int)
	// OnBudget hears what is left of the host's limit, after every answer that says it.
	OnBudget func(Budget)
	// Log receives what is worth an operator's look; nothing is logged if nil.
	Log *slog.Logger
	// Now and After are the clock of facts and of limits; the one on the wall
	// if nil.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
}

// CommitBody is what stands in a commit message under the title.
type CommitBody string

// The bodies of commit messages. Co-authors stand at the end of either.
const (
	NoBody          CommitBody = ""
	DescriptionBody CommitBody = "description" // the pull request's, made harmless
)

// Client is one host. It is safe for concurrent use.
type Client struct {
	cfg     Config
	log     *slog.Logger
	base    http.RoundTripper
	key     *rsa.PrivateKey
	apiURL  string // no slash at the end
	webURL  string
	mirrors *mirror.Mirrors
	app     *conn // acts as the App itself

	mu     sync.Mutex      // guards conns
	conns  map[int64]*conn // by installation
	emails *lru[string, []string]

	nodes  *lru[string, string]    // the ids that GraphQL has for things, see repoKey
	ownRun *lru[string, string]    // that of our unfinished check run of a name on a commit
	silent *lru[string, time.Time] // when a pull request was last read without a comment of ours
}

var _ gitprovider.Host = (*Client)(nil)

// New checks the configuration and makes a client. It talks to nobody. Its
// error names everything that is wrong.
func New(cfg Config) (*Client, error) {
	var problems []error
	problem := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if cfg.AppID <= 0 {
		problem("the App's id must be a positive number; it stands on the App's page under About")
	}
	key, err := jwt.ParseRSAPrivateKeyFromPEM(cfg.PrivateKey)
	if err != nil {
		problem("the App's private key is no RSA key in PEM form; use the .pem file that the host made on the App's page under Private keys, unchanged: %w", err)
	}
	if cfg.DataDir == "" {
		problem("no data folder given for the mirrors of repositories")
	}
	api, err := address(cmp.Or(cfg.APIURL, "https://api.github.com"))
	if err != nil {
		problem("the API's address: %w", err)
	}
	web, err := address(cmp.Or(cfg.WebURL, webOf(api)))
	if err != nil {
		problem("the web address: %w", err)
	}
	if cfg.CommitBody != NoBody && cfg.CommitBody != DescriptionBody {
		problem("the body of commits is %q; it can be empty or %q", cfg.CommitBody, DescriptionBody)
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("connect to GitHub: %w", errors.Join(problems...))
	}
	cfg.fill(web)
	c := &Client{
		cfg: cfg, log: cfg.Log, base: http.DefaultTransport, key: key, apiURL: api, webURL: web,
		conns: map[int64]*conn{}, emails: newLRU[string, []string](1024),
		nodes: newLRU[string, string](16384), ownRun: newLRU[string, string](4096), silent: newLRU[string, time.Time](4096),
	}
	if cfg.HTTP != nil && cfg.HTTP.Transport != nil {
		c.base = cfg.HTTP.Transport
	}
	c.mirrors, err = mirror.New(mirror.Config{
		Dir: filepath.Join(cfg.DataDir, "mirrors"), Git: cfg.Git, Filter: cfg.CloneFilter,
		Name: cfg.CommitterName, Email: cfg.CommitterEmail, SigningKey: cfg.SigningKey, MaxSize: cfg.MirrorSize, Log: cfg.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to GitHub: %w", err)
	}
	c.app = c.newConn(0)
	return c, nil
}

// Close ends what runs in the background: the first copies of repositories
// that are being fetched. Call nothing afterwards.
func (c *Client) Close() { c.mirrors.Close() }

func (cfg *Config) fill(web string) {
	cfg.Host = cmp.Or(cfg.Host, hostOf(web))
	cfg.BotLogin = cmp.Or(cfg.BotLogin, "signalbox[bot]")
	name, _, _ := strings.Cut(cfg.Host, ":")
	cfg.CommitterName = cmp.Or(cfg.CommitterName, cfg.BotLogin)
	cfg.CommitterEmail = cmp.Or(cfg.CommitterEmail, cfg.BotLogin+"@users.noreply."+name)
	cfg.CallTimeout = cmp.Or(cfg.CallTimeout, 30*time.Second)
	if cfg.CommitTitle == nil {
		cfg.CommitTitle = commitTitle
	}
	if cfg.OnCall == nil {
		cfg.OnCall = func(string, int) {}
	}
	if cfg.OnBudget == nil {
		cfg.OnBudget = func(Budget) {}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
}

// address checks a base address and takes the slash off its end.
func address(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", err
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%q must be http(s)://host[/path], without credentials", text)
	}
	return strings.TrimRight(text, "/"), nil
}

// webOf is where people go, for the address of an API.
func webOf(api string) string {
	u, err := url.Parse(api)
	if err != nil {
		return api
	}
	return u.Scheme + "://" + strings.TrimPrefix(u.Host, "api.")
}

// enterpriseServer reports whether the host is a GitHub Enterprise Server: there
// the API is under the web's address, on github.com and ghe.com beside it.
func (c *Client) enterpriseServer() bool { return strings.HasSuffix(c.apiURL, "/api/v3") }

func hostOf(web string) string {
	u, err := url.Parse(web)
	if err != nil {
		return web
	}
	return u.Host
}

// Host is what repositories call this host.
func (c *Client) Host() string { return c.cfg.Host }

// conn returns the connection of a repository's installation.
func (c *Client) conn(repo queue.Repo) (*conn, error) {
	if !strings.EqualFold(repo.Host, c.cfg.Host) {
		return nil, denied("%s is on another host than %s, which this server is connected to", repo, c.cfg.Host)
	}
	if repo.Installation == 0 {
		return nil, denied("the App is not installed on %s; install it from its page on %s", repo, c.cfg.Host)
	}
	return c.installation(repo.Installation), nil
}

func (c *Client) installation(id int64) *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.conns[id]
	if k == nil {
		k = c.newConn(id)
		c.conns[id] = k
	}
	return k
}

func (c *Client) newConn(id int64) *conn {
	k := &conn{c: c, id: id, limits: newLimiter(c.cfg.Limits, c.cfg.Now, c.cfg.After), cache: newLRU[string, cached](2048), unprotected: newLRU[string, time.Time](2048)}
	k.rest = github.NewClient(&http.Client{Transport: k})
	k.rest.BaseURL, _ = url.Parse(c.apiURL + "/")
	k.rest.UserAgent = "signalbox"
	return k
}

// source is a repository as the mirror reaches it now.
func (c *Client) source(ctx context.Context, k *conn, repo queue.Repo) (mirror.Source, error) {
	token, err := k.token(ctx)
	if err != nil {
		return mirror.Source{}, explain(err, "get a token for git on %s", repo)
	}
	var body func(context.Context, queue.StepSpec) (string, error)
	if c.cfg.CommitBody == DescriptionBody {
		body = func(ctx context.Context, s queue.StepSpec) (string, error) { return c.description(ctx, k, repo, s) }
	}
	return mirror.Source{
		Repo: repo, Token: token, Body: body,
		URL:    c.webOfRepo(repo) + ".git",
		Emails: func(ctx context.Context, s queue.StepSpec) ([]string, error) { return c.authorEmails(ctx, k, repo, s) },
	}, nil
}

// webOfRepo is where people find a repository.
func (c *Client) webOfRepo(repo queue.Repo) string {
	return c.webURL + "/" + url.PathEscape(repo.Owner) + "/" + url.PathEscape(repo.Name)
}

// signs reports whether the commits that we make are signed.
func (c *Client) signs() bool { return c.cfg.SigningKey != "" }

// description is what a pull request says about itself at this moment.
func (c *Client) description(ctx context.Context, k *conn, repo queue.Repo, s queue.StepSpec) (string, error) {
	pr, _, err := c.pull(ctx, k, repo, s.PR)
	if err != nil {
		return "", err
	}
	return pr.GetBody(), nil
}

// withSource runs git work, once more with a fresh token if the host refuses
// the one we have: it may have been revoked before its time.
func (c *Client) withSource(ctx context.Context, k *conn, repo queue.Repo, do func(mirror.Source) error) error {
	src, err := c.source(ctx, k, repo)
	if err != nil {
		return err
	}
	err = do(src)
	var remote *mirror.RemoteError
	if !errors.As(err, &remote) || remote.Status != http.StatusUnauthorized {
		return err
	}
	k.forget(src.Token)
	if src, err = c.source(ctx, k, repo); err != nil {
		return err
	}
	return do(src)
}

// at is the path of a call under a repository, each part escaped.
func at(repo queue.Repo, parts ...any) string {
	var b strings.Builder
	b.WriteString("repos/" + url.PathEscape(repo.Owner) + "/" + url.PathEscape(repo.Name))
	for _, p := range parts {
		b.WriteString("/" + url.PathEscape(fmt.Sprint(p)))
	}
	return b.String()
}
