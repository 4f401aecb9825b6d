//go:build !unix

package mirror

import (
	"context"
	"os/exec"
)

// lockFile does nothing here: give each process its own data folder.
func lockFile(context.Context, string) (unlock func(), err error) { return func() {}, nil }

func ownGroup(*exec.Cmd) func() { return func() {} }

func crashSignal(error) bool { return false }
