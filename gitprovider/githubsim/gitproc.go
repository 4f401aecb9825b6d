package githubsim

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
)

// errMissing is returned for an object or a name that a repository has not.
var errMissing = errors.New("no such git object")

// errRefs is returned when git refuses to move refs: their values are not the
// expected ones, or their names cannot stand beside others.
var errRefs = errors.New("refs not updated")

// errClosed is returned for work that arrives after a repository was closed.
var errClosed = errors.New("repository is closed")

// maxObject bounds one object that is read into memory.
const maxObject = 64 << 20

// gitEnv is the environment of every git process: nothing of the person who
// runs the simulator reaches it, so that a private hook, alias or signing key
// changes nothing here.
func gitEnv() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=/nonexistent",
		"LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_TERMINAL_PROMPT=0",
	}
}

// runGit runs git in dir and returns what it printed. The exit status is in
// the error when it is not zero.
func runGit(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = gitEnv()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// coprocess is one long-lived git process that answers questions on its
// standard streams, started when it is first needed. A process start costs
// more than a thousand answers, and the simulator asks a lot.
type coprocess struct {
	dir  string
	args []string

	mu     sync.Mutex // held for one question and its answer
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *bytes.Buffer
	closed bool
}

// start begins the process unless it runs. p.mu is held.
func (p *coprocess) start() error {
	if p.closed {
		return errClosed
	}
	if p.cmd != nil {
		return nil
	}
	cmd := exec.Command("git", p.args...)
	cmd.Dir = p.dir
	cmd.Env = gitEnv()
	p.stderr = &bytes.Buffer{}
	cmd.Stderr = p.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start git %s: %w", p.args[0], err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start git %s: %w", p.args[0], err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start git %s: %w", p.args[0], err)
	}
	p.cmd, p.in, p.out = cmd, in, bufio.NewReaderSize(out, 32<<10)
	return nil
}

// stop ends the process and returns what it said on standard error. p.mu is held.
func (p *coprocess) stop() string {
	if p.cmd == nil {
		return ""
	}
	p.in.Close()
	io.Copy(io.Discard, p.out)
	p.cmd.Wait()
	p.cmd = nil
	return strings.TrimSpace(p.stderr.String())
}

// close ends the process for good.
func (p *coprocess) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	p.closed = true
}

// object asks `git cat-file --batch` for an object by any name that git
// understands.
func (p *coprocess) object(name string) (sha, kind string, data []byte, err error) {
	if name == "" || strings.ContainsAny(name, "\n\x00") {
		return "", "", nil, errMissing
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.start(); err != nil {
		return "", "", nil, err
	}
	sha, kind, data, err = p.readObject(name)
	if err != nil && !errors.Is(err, errMissing) {
		said := p.stop()
		return "", "", nil, fmt.Errorf("read object %q: %w %s", name, err, said)
	}
	return sha, kind, data, err
}

func (p *coprocess) readObject(name string) (sha, kind string, data []byte, err error) {
	if _, err := io.WriteString(p.in, name+"\n"); err != nil {
		return "", "", nil, err
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		return "", "", nil, err
	}
	words := strings.Fields(line)
	if len(words) != 3 || len(words[0]) != 40 || strings.HasSuffix(line, " missing\n") || strings.HasSuffix(line, " ambiguous\n") {
		return "", "", nil, errMissing
	}
	size, err := strconv.Atoi(words[2])
	if err != nil || size > maxObject {
		return "", "", nil, fmt.Errorf("object of size %q", words[2])
	}
	data = make([]byte, size+1) // and the newline after it
	if _, err := io.ReadFull(p.out, data); err != nil {
		return "", "", nil, err
	}
	return words[0], words[1], data[:size], nil
}

// refUpdate moves one ref. Old and New are "" for "does not exist"; with
// AnyOld the present value does not matter.
type refUpdate struct {
	Ref, Old, New string
	AnyOld        bool
}

func (u refUpdate) command() string {
	const zero = "0000000000000000000000000000000000000000"
	old := u.Old
	if old == "" {
		old = zero
	}
	switch {
	case u.New == "" && u.AnyOld:
		return "delete " + u.Ref + "\n"
	case u.New == "":
		return "delete " + u.Ref + " " + old + "\n"
	case u.AnyOld:
		return "update " + u.Ref + " " + u.New + "\n"
	default:
		return "update " + u.Ref + " " + u.New + " " + old + "\n"
	}
}

// updateRefs moves refs in one transaction of `git update-ref --stdin`: all
// of them or none.
func (p *coprocess) updateRefs(updates []refUpdate) error {
	if len(updates) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.start(); err != nil {
		return err
	}
	var commands strings.Builder
	commands.WriteString("start\n")
	for _, u := range updates {
		commands.WriteString(u.command())
	}
	commands.WriteString("commit\n")
	if _, err := io.WriteString(p.in, commands.String()); err != nil {
		return fmt.Errorf("update refs: %w: %s", err, p.stop())
	}
	for _, want := range []string{"start: ok\n", "commit: ok\n"} {
		line, err := p.out.ReadString('\n')
		if err != nil || line != want {
			return fmt.Errorf("%w: %s", errRefs, p.stop())
		}
	}
	return nil
}
