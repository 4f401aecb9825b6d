package main

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/lib/pq"

	"signalbox/gitprovider"
	"signalbox/gitprovider/github"
)

// config is what settings mean, once they have been checked.
type config struct {
	storageConfig
	listen        string
	metricsListen string // "" = no metrics
	baseURL       string
	hook          string // where webhooks should go; "" where nobody said how we are reached
	githubURL     string // web and git address, without a slash at the end
	githubAPIURL  string // with a slash at the end
	host          string // of repositories, in lower case
	unlimited     bool   // the host has no rate limits
	appSlug       string
	appID         int64
	appKey        []byte // PEM
	webhookSecret []byte
	commitBody    github.CommitBody
	committer     string // "" = the App
	committerMail string
	signingKey    string // a file; "" = commits are not signed
	mirrorSize    int64  // bytes; 0 = the default
	clientID      string // of sign-in to the pages; "" = nobody signs in
	clientSecret  string
	localPages    bool // without sign-in: who is at this machine may act
	prefixes      []string
	bots          []string
	ticketURL     string  // with {id} in it; "" = tickets have no address
	rate          float64 // negative = no limit
	burst         int
	deciders      int
	privileged    gitprovider.Permission // for --force and urgent priority
	log           *slog.Logger

	subscriberNetworks []netip.Prefix // that webhooks may be sent to although they are not public
}

// storageConfig is what a sub-command that only uses the database needs.
type storageConfig struct {
	databaseURL string // "" = a private Postgres
	dataDir     string
	connections int
	// secretKeyFile holds the key of the secrets in the database.
	secretKeyFile string
	// calm is how long a telling of what passes waits; 0 = not at all.
	calm time.Duration
	// gather is how long reports may gather; 0 = not at all.
	gather time.Duration
}

// maxSecretFile bounds a file that holds one secret, in bytes.
const maxSecretFile = 64 << 10

// checker collects what is wrong with the settings.
type checker struct {
	problems []error
}

func (c *checker) wrong(format string, args ...any) {
	c.problems = append(c.problems, fmt.Errorf(format, args...))
}

// check reads the settings of a server. Its error names everything that is
// wrong, each with what to do about it.
func (s settings) check(log *slog.Logger) (config, error) {
	c := &checker{}
	cfg := config{
		storageConfig: c.storage(s.storage),
		listen:        c.address("listen", s.Listen),
		baseURL:       c.url("base-url", s.BaseURL),
		prefixes:      list(s.CommandPrefixes),
		bots:          list(s.AllowedBots),
		privileged:    c.right("privileged-right", s.PrivilegedRight),
		rate:          float64(c.number("api-rate", s.APIRate, 0, 1e6)),
		burst:         int(c.number("api-burst", s.APIBurst, 1, 1e6)),
		deciders:      int(c.number("deciders", s.Deciders, 1, 64)),
		log:           log,
	}
	if cfg.rate == 0 {
		cfg.rate = -1
	}
	if s.MetricsListen != "off" && s.MetricsListen != "" {
		cfg.metricsListen = c.address("metrics-listen", s.MetricsListen)
		if cfg.metricsListen == cfg.listen && !strings.HasSuffix(cfg.listen, ":0") {
			c.wrong("metrics-listen and listen are both %s: give the metrics an address of their own, or \"off\"", s.Listen)
		}
	}
	if cfg.ticketURL = s.TicketURL; cfg.ticketURL != "" {
		if c.url("ticket-url", strings.ReplaceAll(cfg.ticketURL, "{id}", "1")); !strings.Contains(cfg.ticketURL, "{id}") {
			c.wrong("ticket-url: %q has no {id} in it, where the name of the ticket goes", cfg.ticketURL)
		}
	}
	for _, p := range cfg.prefixes {
		if strings.ContainsAny(p, " \t\r\n") {
			c.wrong("command-prefixes: %q is not one word", p)
		}
	}
	if cfg.baseURL != "" {
		cfg.hook = cfg.baseURL + "/webhook"
	}
	cfg.subscriberNetworks = c.networks("subscriber-networks", s.SubscriberNetworks)
	c.gitHub(s.gitHub, &cfg)
	c.commits(s.commits, &cfg)
	c.dashboard(s, &cfg)
	if err := errors.Join(c.problems...); err != nil {
		return config{}, err
	}
	return cfg, nil
}

// networks reads a list of networks.
func (c *checker) networks(name, text string) []netip.Prefix {
	var out []netip.Prefix
	for _, word := range list(text) {
		p, err := netip.ParsePrefix(word)
		if ip, single := netip.ParseAddr(word); single == nil {
			p, err = netip.PrefixFrom(ip, ip.BitLen()), nil
		}
		if err != nil {
			c.wrong("%s: %q is no network: give an address and the number of its bits, such as 10.1.2.0/24", name, word)
			continue
		}
		out = append(out, p.Masked())
	}
	return out
}

// right reads the name of a right on a repository.
func (c *checker) right(name, text string) gitprovider.Permission {
	switch strings.ToLower(text) {
	case "admin", "":
		return gitprovider.AdminPermission
	case "write":
		return gitprovider.WritePermission
	default:
		c.wrong("%s is %q: use admin or write", name, text)
		return 0
	}
}

// checkStorage reads only what says where the database is.
func (s storage) checkStorage() (storageConfig, error) {
	c := &checker{}
	cfg := c.storage(s)
	return cfg, errors.Join(c.problems...)
}

func (c *checker) storage(s storage) storageConfig {
	cfg := storageConfig{
		dataDir:     s.DataDir,
		connections: int(c.number("database-connections", s.DatabaseConns, 4, 1000)),
		databaseURL: c.secret("database-url", "DATABASE_URL", s.DatabaseURL, s.DatabaseURLFile),
	}
	if cfg.secretKeyFile = s.SecretKeyFile; cfg.secretKeyFile == "" {
		cfg.secretKeyFile = filepath.Join(s.DataDir, defaultKeyFile)
	} else if _, err := sealer(cfg.secretKeyFile, false); err != nil {
		c.wrong("secret-key-file: %w", err)
	}
	if cfg.dataDir == "" {
		c.wrong("data-dir is empty: name a directory that this program may write to")
	}
	if cfg.databaseURL != "" {
		if _, err := pq.NewConfig(cfg.databaseURL); err != nil {
			// The cause may quote the password.
			c.wrong("database-url is no address of a Postgres: it should look like postgres://user:password@host:5432/database")
		}
	}
	return cfg
}

// gitHub reads what says which host and which App. With nothing of the App
// set, the problem is one and its cure is to make an App.
func (c *checker) gitHub(s gitHub, cfg *config) {
	cfg.githubURL = c.url("github-url", s.GitHubURL)
	if web, err := url.Parse(cfg.githubURL); err == nil && cfg.githubURL != "" {
		cfg.host = strings.ToLower(web.Host)
		cfg.githubAPIURL = cfg.githubURL + "/api/v3/"
		if strings.HasSuffix(cfg.host, ".ghe.com") { // GitHub's own, under the name of a company
			cfg.githubAPIURL = web.Scheme + "://api." + cfg.host + "/"
		}
		if cfg.host == "github.com" || cfg.host == "www.github.com" {
			cfg.host, cfg.githubURL, cfg.githubAPIURL = "github.com", "https://github.com", "https://api.github.com/"
		}
	}
	if s.GitHubAPIURL != "" {
		cfg.githubAPIURL = c.url("github-api-url", s.GitHubAPIURL) + "/"
	}
	if s.Host != "" {
		cfg.host = strings.ToLower(s.Host)
		if strings.ContainsAny(cfg.host, "/ \t\r\n") {
			c.wrong("host is %q: give the name alone, such as github.example.com", s.Host)
		}
	}
	switch s.GitHubLimits {
	case "on", "off":
		cfg.unlimited = s.GitHubLimits == "off"
	default:
		c.wrong("github-limits is %q: give on or off", s.GitHubLimits)
	}
	if cfg.appSlug = s.AppSlug; !slugs.MatchString(s.AppSlug) {
		c.wrong("app-slug is %q: give the last part of the address of the App's page, such as signalbox", s.AppSlug)
	}
	if s.AppID == "" && s.AppPrivateKey == "" && s.AppPrivateKeyFile == "" && s.WebhookSecret == "" && s.WebhookSecretFile == "" {
		c.wrong("no GitHub App is configured. Make one: set SIGNALBOX_BASE_URL and nothing about an App, and the server shows a page that does it; or by hand from app.yml, as docs/deploy.md says, and set SIGNALBOX_APP_ID, " +
			"SIGNALBOX_APP_PRIVATE_KEY_FILE and SIGNALBOX_WEBHOOK_SECRET_FILE. To try Signalbox without GitHub, run: signalbox demo")
		return
	}
	if s.AppID == "" {
		c.wrong("app-id is missing: set SIGNALBOX_APP_ID to the number on the App's settings page")
	} else {
		cfg.appID = c.number("app-id", s.AppID, 1, 1<<62)
	}
	cfg.appKey = []byte(c.secret("app-private-key", "SIGNALBOX_APP_PRIVATE_KEY", s.AppPrivateKey, s.AppPrivateKeyFile))
	if len(cfg.appKey) > 0 {
		if err := checkKey(cfg.appKey); err != nil {
			c.wrong("app-private-key: %w: make a new key on the App's settings page, and give the downloaded .pem file as it is", err)
		}
	} else if s.AppPrivateKeyFile == "" {
		c.wrong("app-private-key is missing: set SIGNALBOX_APP_PRIVATE_KEY_FILE to the .pem file from the App's settings page")
	}
	cfg.webhookSecret = []byte(c.secret("webhook-secret", "SIGNALBOX_WEBHOOK_SECRET", s.WebhookSecret, s.WebhookSecretFile))
	if len(cfg.webhookSecret) == 0 && s.WebhookSecretFile == "" {
		c.wrong("webhook-secret is missing: set SIGNALBOX_WEBHOOK_SECRET to the secret of the App's webhook. Without it anybody could merge anything")
	}
}

// commits reads how commits are made.
func (c *checker) commits(s commits, cfg *config) {
	switch s.CommitBody {
	case "none", "":
	case "description":
		cfg.commitBody = github.DescriptionBody
	default:
		c.wrong("commit-body is %q: give none or description", s.CommitBody)
	}
	cfg.committer, cfg.committerMail, cfg.signingKey = s.CommitterName, s.CommitterEmail, s.SigningKeyFile
	if (s.CommitterName == "") != (s.CommitterEmail == "") {
		c.wrong("committer-name and committer-email belong together: give both or none")
	}
	if s.SigningKeyFile != "" && s.CommitterEmail == "" {
		c.wrong("signing-key-file: an App has no signing key. Set SIGNALBOX_COMMITTER_NAME and SIGNALBOX_COMMITTER_EMAIL to the machine user that the key belongs to")
	}
	if s.MirrorSize != "" {
		cfg.mirrorSize = c.number("mirror-size", s.MirrorSize, 1, 1<<20) << 30
	}
}

// dashboard reads who sees the pages.
func (c *checker) dashboard(s settings, cfg *config) {
	reachable := !loopback(cfg.listen)
	switch s.DashboardPublic {
	case "yes", "no":
	default:
		c.wrong("dashboard-public is %q: give yes or no", s.DashboardPublic)
	}
	switch {
	case s.DashboardAuth == "none" && reachable && s.DashboardPublic == "no":
		c.wrong("dashboard-auth is none, and other machines reach %s: everybody who does would see every queue. Set SIGNALBOX_DASHBOARD_AUTH to github, "+
			"listen on 127.0.0.1 alone, or set SIGNALBOX_DASHBOARD_PUBLIC to yes if that is meant", cfg.listen)
	case s.DashboardAuth == "none":
		base, err := url.Parse(cfg.baseURL)
		cfg.localPages = !reachable && err == nil && (cfg.baseURL == "" || loopback(net.JoinHostPort(base.Hostname(), "0")))
	case s.DashboardAuth != "github":
		c.wrong("dashboard-auth is %q: give github or none", s.DashboardAuth)
	case s.AppID == "": // said already
	default:
		cfg.clientID, cfg.clientSecret = s.ClientID, c.secret("client-secret", "SIGNALBOX_CLIENT_SECRET", s.ClientSecret, s.ClientSecretFile)
		if s.ClientID == "" || cfg.clientSecret == "" && s.ClientSecretFile == "" {
			c.wrong("people sign in to the pages with GitHub: set SIGNALBOX_CLIENT_ID and SIGNALBOX_CLIENT_SECRET_FILE to what the App's settings page shows " +
				"(there, /auth/callback on this server is the callback URL). Without sign-in: set SIGNALBOX_DASHBOARD_AUTH to none")
		}
	}
}

// loopback reports whether only this machine reaches an address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// secret is a value that stands in the environment or in a file. It never
// becomes part of a message.
func (c *checker) secret(name, variable, value, file string) string {
	switch {
	case file == "":
		return value
	case value != "":
		c.wrong("%s and %s-file are both set: %s and %s_FILE exclude each other", name, name, variable, variable)
		return value
	}
	text, err := readSmall(file)
	if err != nil {
		c.wrong("%s-file: %w", name, err)
		return ""
	}
	text = strings.TrimSpace(text)
	if text == "" {
		c.wrong("%s-file: %s is empty", name, file)
	}
	return text
}

func readSmall(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() && info.Mode()&os.ModeNamedPipe == 0 {
		return "", fmt.Errorf("%s is not a file", path)
	}
	if info.Size() > maxSecretFile {
		return "", fmt.Errorf("%s is larger than %d KiB, so it is not the file that was meant", path, maxSecretFile>>10)
	}
	text, err := os.ReadFile(path)
	return string(text), err
}

// checkKey reports why a text is no private key of a GitHub App.
func checkKey(text []byte) error {
	block, _ := pem.Decode(text)
	if block == nil {
		return errors.New("this is not a private key in PEM form (-----BEGIN RSA PRIVATE KEY-----)")
	}
	if _, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("the %s in it cannot be read", strings.ToLower(block.Type))
	}
	if _, ok := key.(*rsa.PrivateKey); !ok {
		return errors.New("it is not an RSA key")
	}
	return nil
}

// address is a place to listen.
func (c *checker) address(name, text string) string {
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		c.wrong("%s is %q: give an address and a port, such as :8080 or 127.0.0.1:8080", name, text)
	}
	return text
}

// url is a web address without a slash at the end; "" stays "".
func (c *checker) url(name, text string) string {
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		c.wrong("%s is %q: give an address such as https://github.example.com", name, text)
		return ""
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		c.wrong("%s must be an address alone, without a user, query or fragment", name)
		return ""
	}
	return strings.TrimRight(text, "/")
}

func (c *checker) number(name, text string, least, most int64) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		c.wrong("%s is %q: give a whole number from %d to %d", name, text, least, most)
		return least
	}
	return n
}

// list reads words separated by commas.
func list(text string) []string {
	var words []string
	for _, w := range strings.Split(text, ",") {
		if w = strings.TrimSpace(w); w != "" {
			words = append(words, w)
		}
	}
	return words
}
