// Command signalbox is a merge queue for GitHub: it tests pull requests as
// they will land, and lands exactly what passed. docs/ is its manual;
// "signalbox help" lists the sub-commands and every setting.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// The first signal asks us to stop; a second one ends us at once.
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], console{in: os.Stdin, out: os.Stdout, err: os.Stderr})
	stop()
	os.Exit(conclude(err, os.Stderr))
}
