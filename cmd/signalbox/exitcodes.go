package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"signalbox/api"
)

// The exit codes of the program. Scripts rely on them: a code never changes its
// meaning, and every one has a row in exitCodes.
const (
	exitDone        = 0
	exitProblem     = 1
	exitUsage       = 2
	exitRefused     = 3
	exitToken       = 4
	exitUnreachable = 5
	exitFailed      = 10
	exitCancelled   = 11
	exitWaiting     = 12
	exitInterrupted = 130
)

// exitCodes says what each code means. Help and docs/commands.md show it.
var exitCodes = []struct {
	code    int
	meaning string
}{
	{exitDone, "Done. With --wait: the pull request is merged."},
	{exitProblem, "Something is wrong, and the message says what and what to do. upload: tests failed (it returns the code of --exit-code, if that is given)."},
	{exitUsage, "The command line is wrong: nothing was done."},
	{exitRefused, "Signalbox refused: there is no such queue or pull request, or it cannot be done now."},
	{exitToken, "The token is missing or unknown, or may not do this."},
	{exitUnreachable, "No answer: the server cannot be reached, is in trouble or has too much to do. Trying again later helps."},
	{exitFailed, "With --wait: the pull request failed."},
	{exitCancelled, "With --wait: the pull request was taken out of the queue."},
	{exitWaiting, "With --wait: the time is up. The pull request stays in the queue."},
	{exitInterrupted, "Interrupted (Ctrl-C). With --wait: the pull request stays in the queue."},
}

// exitStatus is the error of a command that has said everything there is to say
// and wants the program to end with a code.
type exitStatus int

// Error is for those who do not look at the code.
func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// usageError is that the command line makes no sense.
type usageError struct {
	command string // whose help shows how it would
	err     error
}

// Error says what is wrong.
func (u *usageError) Error() string { return u.err.Error() }

// Unwrap is what is wrong.
func (u *usageError) Unwrap() error { return u.err }

// misused is the error of kong about a command line.
func misused(err error) error {
	u := &usageError{"signalbox", err}
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil && parse.Context.Selected() != nil {
		u.command = parse.Context.Selected().FullPath()
	}
	return u
}

// wrongUse is a usageError that a command finds itself; "" is any command.
func wrongUse(command, format string, args ...any) error {
	return &usageError{strings.TrimSpace("signalbox " + command), fmt.Errorf(format, args...)}
}

// conclude says what went wrong and returns the exit code of the program.
func conclude(err error, to io.Writer) int {
	var status exitStatus
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &status):
		return int(status)
	}
	fmt.Fprintln(to, explain(err))
	return exitCodeOf(err)
}

// exitCodeOf is the code for an error.
func exitCodeOf(err error) int {
	var usage *usageError
	var answered *api.Error
	var silent *api.Unreachable
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &silent), errors.As(err, &answered) && answered.Passing():
		return exitUnreachable
	case answered == nil || answered.Code == "":
		return exitProblem
	case answered.Status == http.StatusUnauthorized || answered.Status == http.StatusForbidden:
		return exitToken
	default:
		return exitRefused
	}
}

// explain is an error for a terminal. Several are a list. What to do about them
// stands at the end, each advice once.
func explain(err error) string {
	problems := flatten(err)
	text, indent := "signalbox: ", "  "
	if len(problems) > 1 {
		text += fmt.Sprintf("%d problems:", len(problems))
		indent = "    "
	}
	var advices []string
	for _, p := range problems {
		lines := strings.Split(p.Error(), "\n")
		for i := range lines {
			lines[i] = printable(lines[i])
		}
		if len(problems) > 1 {
			text += "\n  - "
		}
		text += strings.Join(lines, "\n"+indent)
		if a := advice(p); a != "" && !slices.Contains(advices, a) {
			advices = append(advices, a)
		}
	}
	for _, a := range advices {
		text += "\n  " + a
	}
	return text
}

// cures are what to do about what the API refuses, by its code. Where the
// message says it all there is none.
var cures = map[string]string{
	"TOKEN_MISSING":          "Set SIGNALBOX_TOKEN to an API token. On the server, signalbox token create makes one.",
	"TOKEN_INVALID":          "Check SIGNALBOX_TOKEN: the token may have ended or been revoked. On the server, signalbox token list shows them.",
	"SCOPE_MISSING":          "Use a token with a wider scope: submit for pull requests, admin for queues.",
	"QUEUE_NOT_FOUND":        "signalbox queue list shows the queues that the token sees, and signalbox queue create makes one. --repo and --branch name another.",
	"QUEUE_EXISTS":           "signalbox queue set changes it.",
	"QUEUE_NOT_EMPTY":        "signalbox queue get shows them, and signalbox queue drain lets no more in.",
	"PR_NOT_FOUND":           "Check the number, and with --repo the repository.",
	"PR_NOT_SUBMITTED":       "signalbox submit queues it.",
	"PR_NOT_ACTIVE":          "signalbox status shows how it ended, and signalbox submit queues it again.",
	"RATE_LIMITED":           "Try again later, or wait longer with --timeout.",
	"INTERNAL_ERROR":         "Tell those who run the server, with the number of the request: their log has the rest.",
	"PATH_NOT_FOUND":         "This program and the server may be of different versions: signalbox version, and signalbox queue list --json for the server's.",
	"METHOD_NOT_ALLOWED":     "This program and the server may be of different versions: signalbox version, and signalbox queue list --json for the server's.",
	"FORK_RUN_NOT_CONFIRMED": "This works only in the CI of an open pull request from a fork, while the run is in progress.",
}

// advice is what to do about an error, "" if its text says so.
func advice(err error) string {
	var answered *api.Error
	var silent *api.Unreachable
	var stranger *api.Stranger
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		return usage.command + " --help shows what is possible."
	case errors.As(err, &answered) && answered.Code != "":
		if cure := cures[answered.Code]; cure != "" || answered.Help == "" {
			return cure
		}
		return "More: " + printable(answered.Help)
	case errors.As(err, &stranger), answered != nil && !answered.Passing():
		return "Check the address: --url, or SIGNALBOX_URL. It is that of the server, such as https://signalbox.example.com."
	case errors.As(err, &silent) && !errors.Is(err, context.Canceled), answered != nil:
		return "Check the address (--url, or SIGNALBOX_URL), the network and the proxy (HTTPS_PROXY), or wait longer with --timeout."
	}
	return ""
}

// flatten takes apart what errors.Join made, and nothing else; nil is no error.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || strings.Contains(fmt.Sprintf("%T", err), "wrapErrors") {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, flatten(e)...)
	}
	if len(all) == 0 {
		return []error{errors.New("unknown")}
	}
	return all
}
