package mirror

import "syscall"

// dieWithUs has the kernel kill a process when the thread ends that started it.
func dieWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
