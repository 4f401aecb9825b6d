package pgserver

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// childAttr makes a child run as the account, in a process group of its own so
// that Ctrl-C in a terminal reaches us alone, and has the kernel send it
// SIGINT when the thread that started it ends.
func childAttr(a *account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: a.credential(), Pdeathsig: syscall.SIGINT}
}

// processArgs returns the arguments that a process was started with; none when
// it is gone, or a zombie.
func processArgs(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}
