package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// console is where a sub-command writes: results to out, and everything else,
// the log included, to err.
type console struct {
	out, err io.Writer
}

// commands is the command line. Each sub-command is a struct with its flags
// and a Run method.
type commands struct {
	Serve   serveCommand   `cmd:"" help:"Run the server."`
	Demo    demoCommand    `cmd:"" help:"Show the whole thing on this machine: a simulated GitHub, a few authors, a CI, and the real server."`
	Doctor  doctorCommand  `cmd:"" help:"Look at the set-up of queues on their host, and say what is wrong and what to do. Fails when something is."`
	Migrate migrateCommand `cmd:"" help:"Bring the database's schema up to date. serve does so by itself."`
	Token   struct {
		Create tokenCreateCommand `cmd:"" help:"Make an API token and print it, once."`
		List   tokenListCommand   `cmd:"" help:"List the API tokens of an organisation."`
		Revoke tokenRevokeCommand `cmd:"" help:"Make an API token worthless."`
	} `cmd:"" help:"API tokens."`
	Upload  uploadCommand  `cmd:"" help:"In CI: send test reports to Signalbox, and pass if everything that failed is quarantined."`
	Version versionCommand `cmd:"" help:"Print the version."`
	Verify  verifyCommand  `cmd:"" name:"verify-history" help:"Compare everything that landed with what was tested, from the database and the Git history. Fails when a landing is not proven."`
}

// exited carries the exit code that kong asks for after --help.
type exited int

// run reads the command line, runs the sub-command until it is done or ctx
// ends, and returns what went wrong.
func run(ctx context.Context, args []string, c console) (err error) {
	parser, err := newParser(&commands{}, c)
	if err != nil {
		return err
	}
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case exited:
			err = nil
		default:
			panic(cause)
		}
	}()
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return fmt.Errorf("%w (signalbox --help lists the commands)", err)
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	return parsed.Run(c)
}

func newParser(grammar *commands, c console, more ...kong.Option) (*kong.Kong, error) {
	parser, err := kong.New(grammar, append([]kong.Option{
		kong.Name("signalbox"),
		kong.Description("A merge queue for GitHub: it tests pull requests as they will land, and lands exactly what passed."),
		kong.Writers(c.out, c.err),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.UsageOnError(),
	}, more...)...)
	if err != nil {
		return nil, fmt.Errorf("read the command line's own description: %w", err)
	}
	return parser, nil
}

// explain is an error for a terminal. Several are a list.
func explain(err error) string {
	problems := flatten(err)
	if len(problems) == 1 {
		return "signalbox: " + problems[0].Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "signalbox: %d problems:", len(problems))
	for _, p := range problems {
		fmt.Fprintf(&b, "\n  - %s", p)
	}
	return b.String()
}

// flatten takes apart what errors.Join made, and nothing else.
func flatten(err error) []error {
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
