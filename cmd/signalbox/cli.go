package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// console is where a sub-command reads, and writes: results to out, and
// everything else, the log included, to err.
type console struct {
	in       io.Reader // nil: nothing
	out, err io.Writer
}

// commands is the command line. Each sub-command is a struct with its flags
// and a Run method.
type commands struct {
	Submit  submitCommand  `cmd:"" group:"pulls" help:"Queue a pull request."`
	Status  statusCommand  `cmd:"" group:"pulls" help:"Show where a pull request stands and what it waits for."`
	Explain explainCommand `cmd:"" group:"pulls" help:"Show everything about a pull request: each condition, and all that happened."`
	Restart restartCommand `cmd:"" group:"pulls" help:"Test a pull request again."`
	Cancel  cancelCommand  `cmd:"" group:"pulls" help:"Take a pull request out of its queue."`

	Queue queueCommands `cmd:"" group:"queues" help:"Queues and their settings."`

	Targets targetsCommand `cmd:"" group:"ci" help:"Find out which targets a pull request impacts, and upload them. A queue in parallel mode wants to know."`
	Upload  uploadCommand  `cmd:"" group:"ci" help:"Send test reports to Signalbox, and pass if everything that failed is quarantined."`

	Quarantine quarantineCommands `cmd:"" group:"tests" help:"What people decided about flaky tests."`

	Demo    demoCommand    `cmd:"" group:"server" help:"Show the whole thing on this machine: a simulated GitHub, a few authors, a CI, and the real server."`
	Serve   serveCommand   `cmd:"" group:"server" help:"Run the server."`
	Migrate migrateCommand `cmd:"" group:"server" help:"Bring the database's schema up to date. serve does so by itself."`
	Token   struct {
		Create tokenCreateCommand `cmd:"" help:"Make an API token and print it, once."`
		List   tokenListCommand   `cmd:"" help:"List the API tokens of an organisation."`
		Revoke tokenRevokeCommand `cmd:"" help:"Make an API token worthless."`
	} `cmd:"" group:"server" help:"API tokens."`
	Doctor doctorCommand `cmd:"" group:"server" help:"Look at the set-up of queues on their host, and say what is wrong and what to do. Fails when something is."`
	Verify verifyCommand `cmd:"" group:"server" name:"verify-history" help:"Compare everything that landed with what was tested, from the database and the Git history. Fails when a landing is not proven."`

	Simulate simulateCommand `cmd:"" group:"other" help:"Play a queue in virtual time, with your numbers or with what happened, and say which settings suit it."`

	Completion completionCommand `cmd:"" group:"other" help:"Print what makes a shell complete the commands, flags and values of this program."`
	Version    versionCommand    `cmd:"" group:"other" help:"Print the version."`

	Complete completeCommand `cmd:"" name:"__complete" hidden:"" passthrough:""`
}

// groups are the titles under which help lists commands, and flags that many
// commands share.
var groups = kong.Groups{
	"pulls":  "Pull requests:",
	"queues": "Queues:",
	"ci":     "In CI:",
	"tests":  "Flaky tests:",
	"server": "Where the server runs:",
	"other":  "This program:",

	"target":     "Which queue:",
	"connection": "The server to call:",
	"storage":    "Storage:",
	"github":     "The Git host:",
	"commits":    "The commits that land:",
	"logging":    "The log:",
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
		return misused(err)
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	return parsed.Run(c)
}

// help is what --help prints: for the program as a whole, the exit codes too.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil || ctx.Selected() != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("\nExit codes:\n")
	for _, c := range exitCodes {
		for i, line := range broken(c.meaning, 90) {
			code := ""
			if i == 0 {
				code = strconv.Itoa(c.code)
			}
			fmt.Fprintf(&b, "  %-5s%s\n", code, line)
		}
	}
	_, err := io.WriteString(ctx.Stdout, b.String())
	return err
}

func newParser(grammar *commands, c console, more ...kong.Option) (*kong.Kong, error) {
	parser, err := kong.New(grammar, append([]kong.Option{
		kong.Name("signalbox"),
		kong.Description("A merge queue for GitHub: it tests pull requests as they will land, and lands exactly what passed."),
		kong.Writers(c.out, c.err),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		kong.Help(help),
		groups,
	}, more...)...)
	if err != nil {
		return nil, fmt.Errorf("read the command line's own description: %w", err)
	}
	return parser, nil
}
