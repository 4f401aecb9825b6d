//go:build !linux

package pgserver

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// childAttr makes a child run as the account, in a process group of its own so
// that Ctrl-C in a terminal reaches us alone. The child outlives us when we
// are killed: the next Start stops it.
func childAttr(a *account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: a.credential()}
}

// processArgs returns the arguments that a process was started with; none when
// it is gone, or a zombie. A path with spaces comes in pieces, for ps does not
// tell where an argument ends: hasArg knows.
func processArgs(pid int) []string {
	out, err := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return nil
	}
	line := strings.TrimSpace(string(out))
	if line == "" || strings.HasPrefix(line, "(") || strings.HasSuffix(line, "<defunct>") {
		return nil
	}
	return strings.Split(line, " ")
}
