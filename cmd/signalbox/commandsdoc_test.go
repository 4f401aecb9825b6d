package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"signalbox/api"
	"signalbox/queue"
	"signalbox/web"
)

// commandLine reads command lines as the program does, and prints nothing.
func commandLine(t *testing.T) *kong.Kong {
	t.Helper()
	parser, err := newParser(&commands{}, console{out: io.Discard, err: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	return parser
}

// docs/commands.md is written from the command line's own description, the
// table of exit codes and that of settings.
func TestTheCommandsAreDocumented(t *testing.T) {
	t.Parallel()
	app := commandLine(t).Model
	var b strings.Builder
	b.WriteString(commandsIntro)
	for _, c := range exitCodes {
		fmt.Fprintf(&b, "| %d | %s |\n", c.code, c.meaning)
	}
	shared := sharedFlags(app)
	title := ""
	for _, node := range app.Leaves(true) {
		if g := node.ClosestGroup(); g.Title != title {
			title = g.Title
			fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(title, ":"))
		}
		document(&b, node, shared)
	}
	b.WriteString("\n## Flags that several commands have\n")
	for _, g := range shared {
		fmt.Fprintf(&b, "\n### %s\n\n", g.title)
		flagTable(&b, g.flags)
	}
	b.WriteString("\n## Settings of a queue\n\n`queue create` and `queue set` take them as `name=value`, and `queue get` shows them. A switch is on or off, a list has commas.\n\n| setting | values | default | what it does |\n|---|---|---|---|\n")
	for _, s := range web.Settings() {
		value := shownDefault(s)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Name, strings.ReplaceAll(valueForm(s), "|", ", "), value, s.Help)
	}
	golden(t, "../../docs/commands.md", b.String())
}

func shownDefault(s web.Setting) string {
	switch {
	case s.Kind == "switch":
		return map[string]string{"true": "on", "false": "off"}[s.Default]
	case s.Default == "":
		return "none"
	}
	return s.Default
}

const commandsIntro = `# Commands

This page is made from the program itself: ` + "`signalbox COMMAND --help`" + ` says the same.

Commands about pull requests and queues call a server. They take its address and a token from ` + "`SIGNALBOX_URL`" + ` and
` + "`SIGNALBOX_TOKEN`" + `, and find the repository, the branch and the pull request in the variables of GitHub Actions, GitLab CI,
CircleCI, Buildkite, Jenkins and Azure Pipelines, and in the checkout around: the remote ` + "`upstream`" + ` or ` + "`origin`" + `, and the pull
request whose head commit is checked out. A server that does not answer, or has too much to do, is asked again for as long as
` + "`--timeout`" + ` says. Proxies are those of ` + "`HTTPS_PROXY`" + `, ` + "`HTTP_PROXY`" + ` and ` + "`NO_PROXY`" + `.

Results go to standard output, everything else to standard error. With ` + "`--json`" + ` the result is one line of JSON: what the API
answered.

## Exit codes

| code | meaning |
|---|---|
`

// flagGroup are flags under a title.
type flagGroup struct {
	title string
	flags []*kong.Flag
}

// grouped are the flags of a command by their groups, in order; those without
// one come first.
func grouped(node *kong.Node) []flagGroup {
	all := []flagGroup{{}}
	for _, f := range node.Flags {
		i := 0
		if f.Group != nil {
			title := strings.TrimSuffix(f.Group.Title, ":")
			if i = slices.IndexFunc(all, func(g flagGroup) bool { return g.title == title }); i < 0 {
				i = len(all)
				all = append(all, flagGroup{title: title})
			}
		}
		all[i].flags = append(all[i].flags, f)
	}
	return all
}

// sharedFlags are the groups of flags that several commands have, each with all
// flags that one of them has.
func sharedFlags(app *kong.Application) (shared []flagGroup) {
	commands := map[string]int{}
	var all []flagGroup
	for _, node := range app.Leaves(true) {
		for _, g := range grouped(node)[1:] {
			commands[g.title]++
			i := slices.IndexFunc(all, func(known flagGroup) bool { return known.title == g.title })
			if i < 0 {
				all = append(all, g)
				continue
			}
			for _, f := range g.flags {
				if !slices.ContainsFunc(all[i].flags, func(known *kong.Flag) bool { return known.Name == f.Name }) {
					all[i].flags = append(all[i].flags, f)
				}
			}
		}
	}
	for _, g := range all {
		if commands[g.title] > 1 {
			shared = append(shared, g)
		}
	}
	return shared
}

// document writes the part about one command.
func document(b *strings.Builder, node *kong.Node, shared []flagGroup) {
	fmt.Fprintf(b, "\n### signalbox %s\n\n%s\n\n    signalbox %s\n", node.Path(), node.Help, node.Summary())
	if detail := strings.TrimSpace(node.Detail); detail != "" {
		fmt.Fprintf(b, "\n%s\n", detail)
	}
	for _, arg := range node.Positional {
		fmt.Fprintf(b, "\n`%s`: %s\n", arg.Name, arg.Help)
	}
	var also []string
	for _, g := range grouped(node) {
		switch known := slices.ContainsFunc(shared, func(k flagGroup) bool { return k.title == g.title }); {
		case known:
			also = append(also, fmt.Sprintf("[%s](#%s)", strings.ToLower(g.title[:1])+g.title[1:], strings.ToLower(strings.ReplaceAll(g.title, " ", "-"))))
		case len(g.flags) > 0:
			if g.title != "" {
				fmt.Fprintf(b, "\n%s:\n", g.title)
			}
			b.WriteString("\n")
			flagTable(b, g.flags)
		}
	}
	if len(also) > 0 {
		fmt.Fprintf(b, "\nAlso: %s.\n", strings.Join(also, ", "))
	}
}

func flagTable(b *strings.Builder, flags []*kong.Flag) {
	b.WriteString("| flag | variable | default | what it does |\n|---|---|---|---|\n")
	for _, f := range flags {
		name, variable, value := "`--"+f.Name+"`", "", ""
		if f.Short != 0 {
			name = fmt.Sprintf("`-%c`, ", f.Short) + name
		}
		if len(f.Envs) > 0 {
			variable = "`" + strings.Join(f.Envs, "`, `") + "`"
		}
		if f.HasDefault {
			value = "`" + f.Default + "`"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", name, variable, value, strings.ReplaceAll(f.Help, "|", "\\|"))
	}
}

// Help reads well: the whole program's, that of a command with flags of every
// kind, and that of one with settings.
func TestHelp(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, line := range []string{"", "submit", "queue", "queue set", "completion"} {
		out, _, code := signalboxIn(t, t.TempDir(), nil, append(words(line), "--help")...)
		fmt.Fprintf(&all, "$ signalbox %s --help\n%s\n", line, out)
		if code != 0 {
			t.Errorf("signalbox %s --help: exit code %d", line, code)
		}
	}
	golden(t, "testdata/cli/help.txt", all.String())
}

// Every code that the program can end with is in the table, once, and every
// setting of the API can be set.
func TestTheTablesAreWhole(t *testing.T) {
	t.Parallel()
	for _, code := range []int{exitDone, exitProblem, exitUsage, exitRefused, exitToken, exitUnreachable, exitFailed, exitCancelled, exitWaiting, exitInterrupted} {
		n := 0
		for _, c := range exitCodes {
			if c.code == code {
				n++
			}
		}
		if n != 1 {
			t.Errorf("exit code %d stands %d times in the table", code, n)
		}
	}
	for status, want := range map[int]int{400: exitRefused, 401: exitToken, 403: exitToken, 404: exitRefused, 409: exitRefused, 429: exitUnreachable, 500: exitUnreachable, 503: exitUnreachable} {
		if got := exitCodeOf(fmt.Errorf("submit: %w", &api.Error{Status: status, Code: "X"})); got != want {
			t.Errorf("status %d is exit code %d, want %d", status, got, want)
		}
	}
	if got := exitCodeOf(&api.Error{Status: 302}); got != exitProblem {
		t.Errorf("a redirect is exit code %d", got)
	}
	settings := web.Settings()
	for _, f := range fieldsOf[queue.Change]() {
		if f != "state" && !slices.ContainsFunc(settings, func(s web.Setting) bool { return s.Name == f }) {
			t.Errorf("nobody can set %s", f)
		}
	}
}

// Shells complete commands, flags and values.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"bash que":                            "queue\n",
		"bash queue re":                       "resume\n",
		"bash submit 7 --pri":                 "--priority\n",
		"bash submit -p l":                    "low\nlowest\n",
		"bash submit --priority = lowe":       "lowest\n",
		"bash submit --wait -p u":             "urgent\n",
		"bash queue set mode = p":             "parallel\n",
		"bash queue set batch=on mergeMethod": "mergeMethod=merge_commit\nmergeMethod=squash\nmergeMethod=rebase\n",
		"bash token create --scope s":         "submit\n",
		"bash __comp":                         "",
		"bash upload repo":                    "",
		"bash submit --priority=lowe":         "--priority=lowest\n",
		"fish completion z":                   "zsh\t\n",
		"fish canc":                           "cancel\tTake a pull request out of its queue.\n",
		"zsh submit --no":                     "--no-batch:Test it in no batch with others.\n",
		"bash":                                "submit\nstatus\nexplain\nrestart\ncancel\nqueue\ntargets\nupload",
	} {
		out, warned, code := signalboxIn(t, t.TempDir(), nil, append([]string{"__complete"}, words(line)...)...)
		if code != 0 || warned != "" || out != want && !(line == "bash" && strings.HasPrefix(out, want)) {
			t.Errorf("%s: %d %q %s", line, code, out, warned)
		}
	}
}

// The scripts work in the shells that are on this machine; bash is.
func TestShellsTakeTheScripts(t *testing.T) {
	t.Parallel()
	dir := programDir(t)
	for _, c := range []struct{ shell, ask, want string }{
		{"bash", `source <(signalbox completion bash); COMP_WORDS=(signalbox queue set mode = p); COMP_CWORD=5; _signalbox; echo "${COMPREPLY[@]}"`, "parallel\n"},
		{"bash", `source <(signalbox completion bash); COMP_WORDS=(signalbox queue ""); COMP_CWORD=2; _signalbox; echo "${COMPREPLY[@]}"`, "list get set create delete pause resume drain\n"},
		{"zsh", `compdef() { :; }; _describe() { print -l ${(P)3}; }; source <(signalbox completion zsh); words=(signalbox queue dr); CURRENT=3; _signalbox`, "drain:Have a queue finish what is in line, and admit nobody.\n"},
		{"fish", `signalbox completion fish | source; complete -C "signalbox queue dr"`, "drain\tHave a queue finish what is in line, and admit nobody.\n"},
	} {
		shell, err := exec.LookPath(c.shell)
		if err != nil {
			t.Logf("%s is not here", c.shell)
			continue
		}
		cmd := exec.CommandContext(t.Context(), shell, "-c", c.ask)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir}
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != c.want {
			t.Errorf("%s: %v %s, want %s", c.shell, err, out, c.want)
		}
	}
}

// What a person sees while waiting: drawn again on a terminal, noted line by
// line elsewhere.
func TestProgress(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 14, 0, 0, 0, time.UTC)
	at := now.Add(12 * time.Minute)
	waits := sight{Explanation: api.Explanation{Number: 12, Title: "Greet\x1b[31m people", State: "pending", Position: 3, WaitsFor: "It waits for one of 2 testing slots.", EstimatedAt: &at}}
	tests := waits
	tests.State, tests.Position, tests.WaitsFor, tests.TestedWith = "testing", 2, "Required checks still running or missing on 1a2b3c4: test.", []int64{10, 11}
	tests.run = &api.Testing{RequiredStatuses: []string{"test", "build"}}
	lands := sight{Explanation: api.Explanation{Number: 12, Title: "Greet people", State: "merged", Reason: api.Reason{Code: "MERGED_BY_QUEUE", Message: "Landed."}}}

	var lines, drawn strings.Builder
	plain := &progress{out: &lines}
	for i, s := range []sight{waits, waits, tests} {
		plain.show(s, now.Add(time.Duration(i)*time.Second))
	}
	plain.show(tests, now.Add(time.Hour)) // a sign of life
	for range 3 {
		plain.trouble(&api.Unreachable{Host: "signalbox.example.com", Err: os.ErrDeadlineExceeded}, now.Add(2*time.Hour))
	}
	plain.show(tests, now.Add(3*time.Hour))
	plain.show(lands, now.Add(3*time.Hour))
	want := `14:00:00  #12 waits in line, number 3 in the queue. It waits for one of 2 testing slots.
14:00:02  #12 is being tested, number 2 in the queue. Required checks still running or missing on 1a2b3c4: test.
15:00:00  #12 is being tested, number 2 in the queue. Required checks still running or missing on 1a2b3c4: test.
16:00:00  signalbox.example.com cannot be reached: i/o timeout; trying again.
17:00:00  #12 is being tested, number 2 in the queue. Required checks still running or missing on 1a2b3c4: test.
17:00:00  #12 is merged. Landed.
`
	if diff := cmp.Diff(want, lines.String()); diff != "" {
		t.Error(diff)
	}

	onScreen := &progress{out: &drawn, size: func() (int, int) { return 50, 7 }}
	onScreen.show(waits, now)
	onScreen.show(tests, now)
	want = "#12 Greet [31m people\n" +
		"  Waits in line, number 3 in the queue, merges at\n  about 14:12 (in 12 minutes).\n" +
		"  It waits for one of 2 testing slots.\n" +
		"\x1b[4A\r\x1b[J" +
		"#12 Greet [31m people\n" +
		"  Is being tested, number 2 in the queue, merges\n  at about 14:12 (in 12 minutes).\n" +
		"  Required checks still running or missing on\n  1a2b3c4: test.\n" +
		"  Tested on top of #10, #11.\n"
	if diff := cmp.Diff(want, drawn.String()); diff != "" {
		t.Error(diff)
	}
	for line, want := range map[string][]string{
		"":                   {""},
		"  abc def":          {"  abc", "  def"},
		"abcdefghij":         {"abcdefg", "hij"},
		"合併合併":               {"合併合", "併"},
		"a bc def ghij":      {"a bc", "def", "ghij"},
		"  a 12345678901234": {"  a", "  12345", "  67890", "  1234"},
	} {
		if got := broken(line, 7); !slices.Equal(got, want) {
			t.Errorf("%q: %q", line, got)
		}
	}
}

// fieldsOf are the names that the fields of a struct have in JSON.
func fieldsOf[T any]() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
