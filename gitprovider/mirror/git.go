package mirror

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"signalbox/gitprovider"
)

// job is one run of git.
type job struct {
	args  []string
	stdin string
	env   []string // added to the environment
	// remote: it talks to the host, so it gets the token.
	remote bool
	// outside: it does not run in the mirror.
	outside bool
	// limit bounds standard output in bytes, maxOutput if zero.
	limit int
	// timeout bounds the run, the configured one if zero.
	timeout time.Duration
	// progress hears what git says of how far it is, a line at a time.
	progress func(line string)
}

// Bounds on what is read of git: a chain's commit messages fit by far, an
// endless answer does not.
const (
	maxOutput = 64 << 20
	maxStderr = 32 << 10
)

// runError is a git that ended badly. Code is its exit code, -1 when a signal
// ended it.
type runError struct {
	verb   string
	code   int
	stderr string
	cause  error
}

// crashed reports whether a run was ended by its own doing: it crashed, or asked
// for more memory than it may have.
func (e *runError) crashed() bool {
	return e.code == -1 && crashSignal(e.cause) || strings.Contains(e.stderr, "fatal: attempting to allocate ")
}

func (e *runError) Error() string {
	text := strings.TrimSpace(e.stderr)
	if text == "" {
		text = e.cause.Error()
	}
	return fmt.Sprintf("git %s: %s", e.verb, text)
}

func (e *runError) Unwrap() error { return e.cause }

// git runs git and returns its standard output, also when it fails.
func (c *clone) git(ctx context.Context, j job) ([]byte, error) {
	timeout := cmp.Or(j.timeout, c.m.cfg.Timeout)
	runCtx, cancel := context.WithTimeoutCause(ctx, timeout, errTooLate)
	defer cancel()
	runCtx, stop := context.WithCancelCause(runCtx)
	defer stop(nil)
	args := j.args
	if !j.outside {
		args = append([]string{"--git-dir=" + c.dir}, args...)
	}
	cmd := exec.CommandContext(runCtx, c.m.cfg.Git, args...)
	cmd.Dir = c.m.cfg.Dir
	cmd.Env = append(c.environment(j.remote || c.m.cfg.Filter != "off"), j.env...)
	cmd.Stdin = strings.NewReader(j.stdin)
	stdout := &bounded{max: cmp.Or(j.limit, maxOutput), stop: func() { stop(errTooLong) }}
	stderr := &bounded{max: maxStderr, progress: j.progress}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = 5 * time.Second
	end := ownGroup(cmd)
	weighed := c.weigh(runCtx, j, stop)
	runtime.LockOSThread() // see ownGroup
	err := cmd.Run()
	runtime.UnlockOSThread()
	end()
	stop(nil)
	weighed()
	why := context.Cause(runCtx)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("git %s: %w", j.args[0], ctx.Err())
	case errors.Is(why, errTooLong):
		return nil, fmt.Errorf("git %s: more than %d bytes of output: %w", j.args[0], stdout.max, errTooLong)
	case errors.Is(why, errTooBig):
		return nil, fmt.Errorf("git %s: %w", j.args[0], errTooBig)
	case errors.Is(why, errTooLate):
		return nil, fmt.Errorf("git %s took longer than %s: %w", j.args[0], timeout, errUnreachable)
	case err != nil:
		code := -1
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		}
		return stdout.buf.Bytes(), &runError{verb: j.args[0], code: code, stderr: c.scrub(stderr.buf.String()), cause: err}
	}
	return stdout.buf.Bytes(), nil
}

// errTooLate is why a run of git was ended that took too long.
var errTooLate = errors.New("too late")

// weigh ends a run that brings objects when the mirror grows above its cap.
// The returned function waits until nobody looks any more; ctx has ended then.
func (c *clone) weigh(ctx context.Context, j job, stop context.CancelCauseFunc) (wait func()) {
	if !j.remote || j.outside {
		return func() {}
	}
	var looking sync.WaitGroup
	looking.Go(func() {
		tick := time.NewTicker(c.m.weighEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if c.size() > c.m.cfg.MaxSize {
					stop(errTooBig)
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return looking.Wait
}

var errTooLong = errors.New("too long")

// local is git for what cannot fail on a healthy mirror.
func (c *clone) local(ctx context.Context, j job) ([]byte, error) {
	out, err := c.git(ctx, j)
	return out, broken(err)
}

// broken marks the failure of a run that cannot fail on a healthy mirror. One
// that was ended from outside says nothing about the mirror.
func broken(err error) error {
	var run *runError
	if errors.As(err, &run) && run.code != -1 {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	return err
}

// kept are the variables of our own environment that git may see: how to
// find programs, proxies and certificates, and nothing else.
var kept = []string{"PATH", "TMPDIR", "TMP", "TEMP", "SYSTEMROOT",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "CURL_CA_BUNDLE"}

// environment is everything that git gets to know: no configuration of the
// machine or the user, no prompts, only protocols that are allowed.
func (c *clone) environment(remote bool) []string {
	protocols := "https:http"
	if c.m.cfg.AllowFile {
		protocols += ":file"
	}
	env := []string{
		"GIT_CEILING_DIRECTORIES=" + filepath.Dir(c.m.cfg.Dir), "HOME=" + c.m.cfg.Dir, "XDG_CONFIG_HOME=" + c.m.cfg.Dir, "LC_ALL=C", "TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=", "GIT_ALLOW_PROTOCOL=" + protocols,
		"GIT_OPTIONAL_LOCKS=0", "GIT_ADVICE=0",
		"GIT_AUTHOR_NAME=" + c.m.cfg.Name, "GIT_AUTHOR_EMAIL=" + c.m.cfg.Email,
		"GIT_COMMITTER_NAME=" + c.m.cfg.Name, "GIT_COMMITTER_EMAIL=" + c.m.cfg.Email,
	}
	for _, name := range kept {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	// Git reads the proxy for http:// in small letters only; the rest of us in both.
	if value, ok := os.LookupEnv("HTTP_PROXY"); ok && os.Getenv("http_proxy") == "" {
		env = append(env, "http_proxy="+value)
	}
	config := [][2]string{
		{"core.hooksPath", os.DevNull}, {"core.attributesFile", os.DevNull}, {"core.fsmonitor", "false"},
		{"credential.helper", ""}, {"submodule.recurse", "false"}, {"fetch.recurseSubmodules", "false"},
		{"push.recurseSubmodules", "no"}, {"log.showSignature", "false"}, {"core.quotePath", "false"},
		{"advice.pushUpdateRejected", "false"}, {"http.followRedirects", "false"}, {"http.lowSpeedLimit", "1"}, {"http.lowSpeedTime", "60"},
	}
	if key := c.m.cfg.SigningKey; key != "" {
		config = append(config, [2]string{"gpg.format", "ssh"}, [2]string{"user.signingKey", key})
	}
	if remote {
		config = append(config, [2]string{"remote.origin.url", c.src.URL})
		if c.src.Token != "" {
			// For this host only.
			config = append(config, [2]string{"http." + origin(c.src.URL) + "/.extraHeader", "Authorization: Basic " + c.basic()})
		}
	}
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(config)))
	for i, kv := range config {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	return env
}

func (c *clone) basic() string {
	return base64.StdEncoding.EncodeToString([]byte("x-access-token:" + c.src.Token))
}

// origin is the scheme and host of an address.
func origin(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	host, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + host
}

// scrub takes the token out of what git says, should it ever say it.
func (c *clone) scrub(text string) string {
	if c.src.Token == "" {
		return text
	}
	return strings.NewReplacer(c.src.Token, "[token]", c.basic(), "[token]").Replace(text)
}

// bounded keeps the first bytes written to it and calls stop at the first
// byte too many, if there is a stop; else it drops the rest. Lines that git
// overwrites (they end with a carriage return) are progress and not kept where
// somebody wants to hear of it.
type bounded struct {
	buf      bytes.Buffer // not embedded: io.Copy would find its ReadFrom
	max      int
	stop     func()
	progress func(line string)
	open     []byte // of progress: a line that has not ended
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.progress == nil {
		return b.keep(p)
	}
	b.open = append(b.open, p...)
	for {
		i := bytes.IndexAny(b.open, "\r\n")
		if i < 0 {
			b.open = b.open[:min(len(b.open), 4096)]
			return len(p), nil
		}
		line := string(b.open[:i])
		if b.open[i] == '\n' {
			b.keep(b.open[:i+1])
		}
		b.open = b.open[i+1:]
		if said := strings.TrimSpace(strings.TrimPrefix(line, "remote:")); said != "" {
			b.progress(field(said, 200))
		}
	}
}

func (b *bounded) keep(p []byte) (int, error) {
	room := b.max - b.buf.Len()
	if len(p) <= room {
		return b.buf.Write(p)
	}
	b.buf.Write(p[:max(room, 0)])
	if b.stop != nil {
		b.stop()
	}
	return len(p), nil
}

// RemoteError is git's report of an HTTP status that the host answered with.
type RemoteError struct {
	Status int
	Text   string // what git and the host said
}

// Error is the status and what was said.
func (e *RemoteError) Error() string {
	return fmt.Sprintf("git got HTTP %d: %s", e.Status, strings.TrimSpace(e.Text))
}

var httpStatus = regexp.MustCompile(`returned error: (\d{3})`)

// remoteError sorts a failure of a run that talked to the host. The words are
// those of git's own client in the C locale, not the host's.
func (c *clone) remoteError(err error) error {
	var run *runError
	if !errors.As(err, &run) {
		return err
	}
	status := 0
	switch found := httpStatus.FindStringSubmatch(run.stderr); {
	case found != nil:
		status, _ = strconv.Atoi(found[1])
	case strings.Contains(run.stderr, "fatal: Authentication failed"), strings.Contains(run.stderr, "fatal: could not read Username"):
		status = 401
	case strings.Contains(run.stderr, "fatal: repository '") && strings.Contains(run.stderr, "' not found"):
		status = 404
	}
	remote := &RemoteError{Status: status, Text: run.stderr}
	switch {
	case status == 0 && damaged(run.stderr):
		return broken(err)
	case status == 0:
		return fmt.Errorf("%w: %w", errUnreachable, err)
	case status == 401:
		return &gitprovider.Error{Kind: gitprovider.Denied, Message: "the host does not accept the App's token for git", Err: remote}
	case status == 403:
		return &gitprovider.Error{Kind: gitprovider.Denied, Message: "the App may not use git on " + c.src.Repo.String() + "; it needs the permission contents: write", Err: remote}
	case status == 404:
		return &gitprovider.Error{Kind: gitprovider.Denied, Message: c.src.Repo.String() + " cannot be reached with git; the App needs to be installed on it with the permission contents: write", Err: remote}
	case status >= 300 && status < 400:
		// Git would take the token along. A repository that was renamed is
		// asked for under its new name as soon as we hear of that.
		return &gitprovider.Error{Kind: gitprovider.Transient, Err: remote, Message: "the host redirects git from " + c.src.URL +
			" to another address; if the repository was renamed, this passes by itself, else the address of the host in the settings is not its real one"}
	default:
		return fmt.Errorf("%w: %w", errUnreachable, remote)
	}
}

var damage = regexp.MustCompile(`(?i)not a git repository|unable to read|bad object|bad tree|missing (?:blob|tree|commit|object)|corrupt|inflate|index file .* (?:is|too|does)|packfile .* (?:is|cannot|does)|does not point to a valid object|bad config|objects? .* (?:is|are) missing|did not receive expected object|error in object|could not open directory|No such file or directory|Not a directory|invalid object`)

// damaged reports whether git's own client, in the C locale, complains about
// the files of the mirror, in a run that talked to the host as well. It is
// only the question whether to look further: a healthy mirror that is made
// anew costs time, nothing else.
func damaged(stderr string) bool {
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "remote:") && damage.MatchString(line) {
			return true
		}
	}
	return false
}

// reachable asks the host for anything at all.
func (c *clone) reachable(ctx context.Context) error {
	_, err := c.git(ctx, job{remote: true, outside: true, args: []string{"ls-remote", "--quiet", "origin", "HEAD"}})
	return c.remoteError(err)
}
