package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"signalbox/api"
	"signalbox/targets"
)

// targetsCommand finds out which targets a pull request impacts, says why, and
// uploads them.
type targetsCommand struct {
	pullTarget
	Sha    string `help:"Head commit of the pull request that the targets are for. Default: what the CI job says, else what is checked out."`
	Base   string `help:"Commit or branch to compare with: what changed since its merge base with the head. Default: the branch of the queue, as the remote has it; where the Git host's merge of the pull request is checked out, what that was merged into."`
	DryRun bool   `name:"dry-run" help:"Only print them: no server is called."`

	All    bool   `xor:"source" help:"It impacts everything. Nothing is compared."`
	Stdin  bool   `xor:"source" help:"Read the targets from standard input, as bazel query, go list or nx show projects print them: one in a line, or a list of JSON."`
	Go     string `xor:"source" placeholder:"PATTERN" help:"The targets are Go packages, such as ./... : those whose files changed, and all that depend on them."`
	Bazel  string `xor:"source" placeholder:"UNIVERSE" help:"The targets are those of Bazel, such as //... : all that depend on files that changed."`
	Nx     bool   `xor:"source" help:"The targets are the projects of an Nx workspace that it calls affected."`
	Config string `help:"File with rules, in a section impacted_targets. Default: .signalbox.yaml or .github/signalbox.yaml, if there is one."`

	Target     map[string]string `name:"target" placeholder:"NAME=GLOB" help:"A target that files impact which match. Once more for more patterns and targets; patterns of one are separated by commas."`
	Folders    []string          `placeholder:"GLOB" help:"Each folder that matches is a target, such as services/*."`
	Everything []string          `placeholder:"GLOB" help:"Files that impact everything, such as tools/**."`
	Ignore     []string          `placeholder:"GLOB" help:"Files that impact nothing, such as **/*.md."`
	Otherwise  string            `help:"What a file impacts that no rule knows: everything, nothing, or the name of a target. Default: everything."`
}

// Help says how rules stand in a file.
func (targetsCommand) Help() string {
	return `Which target a file belongs to is said by a build tool (--go, --bazel, --nx, --stdin) or by rules: the flags below, or this section of .signalbox.yaml in the repository.

    impacted_targets:
      everything: ["*.lock", "tools/**"]
      ignore: ["**/*.md"]
      targets:
        web: ["web/**", "libs/ui/**"]
      folders: ["services/*"]
      otherwise: everything

A file that everything names impacts everything, one that ignore names nothing. Any other impacts each target and each folder that it matches, and if it matches none, what otherwise says. Whoever changes the rules impacts everything. With --go the rules are asked about files that belong to no package; with the other tools they are not asked.

In the CI of a pull request from a fork, on GitHub Actions, no token is needed: the run itself is the proof.
`
}

// impact is what was found.
type impact struct {
	set        targets.Set
	files      int    // that changed; -1 = nothing was compared
	base, head string // of the comparison
}

// Run finds the targets, prints them and uploads them.
func (t *targetsCommand) Run(ctx context.Context, c console) error {
	if err := t.useOneWay(); err != nil {
		return err
	}
	found, err := t.impact(ctx, c)
	if err != nil {
		return err
	}
	if t.DryRun {
		return found.print(c, t.JSON, nil)
	}
	sent, err := t.upload(ctx, c, &found)
	if err != nil {
		return err
	}
	return found.print(c, t.JSON, sent)
}

func (t *targetsCommand) useOneWay() error {
	if t.Sha != "" && !commitID(t.Sha) {
		return wrongUse("targets", "sha is %q: give the whole id of a commit", t.Sha)
	}
	if rules := t.flagRules(); (t.All || t.Stdin || t.Nx || t.Bazel != "") && !rules.Empty() {
		return wrongUse("targets", "rules are not asked when the targets come from elsewhere")
	}
	return nil
}

func commitID(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(strings.ToLower(text), "0123456789abcdef") == ""
}

// flagRules are the rules that the flags give.
func (t *targetsCommand) flagRules() targets.Rules {
	r := targets.Rules{Everything: t.Everything, Ignore: t.Ignore, Folders: t.Folders, Otherwise: t.Otherwise}
	for name, patterns := range t.Target {
		if r.Targets == nil {
			r.Targets = map[string][]string{}
		}
		r.Targets[name] = strings.Split(patterns, ",")
	}
	return r
}

// rules are those of the flags, and of the repository's file.
func (t *targetsCommand) rules(root string) (targets.Rules, error) {
	flags := t.flagRules()
	if err := flags.Check(); err != nil {
		return flags, &usageError{"signalbox targets", err}
	}
	files := targets.Files
	if t.Config != "" {
		files = []string{t.Config}
	}
	for _, name := range files {
		path := name
		if t.Config == "" {
			path = filepath.Join(root, name)
		}
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) && t.Config == "" {
			continue
		}
		if err != nil {
			return flags, fmt.Errorf("read the rules: %w", err)
		}
		r, err := targets.ReadRules(name, f)
		_ = f.Close()
		if errors.Is(err, targets.ErrNoRules) && t.Config == "" {
			break
		}
		if err != nil {
			return flags, err
		}
		r.Everything, r.Ignore, r.Folders = slices.Concat(r.Everything, flags.Everything), slices.Concat(r.Ignore, flags.Ignore), slices.Concat(r.Folders, flags.Folders)
		if flags.Otherwise != "" {
			r.Otherwise = flags.Otherwise
		}
		if r.Targets == nil {
			r.Targets = map[string][]string{}
		}
		for name, patterns := range flags.Targets {
			r.Targets[name] = slices.Concat(r.Targets[name], patterns)
		}
		return r, nil
	}
	return flags, nil
}

// impact finds out what is impacted.
func (t *targetsCommand) impact(ctx context.Context, c console) (impact, error) {
	found := impact{files: -1}
	switch {
	case t.All:
		found.set.Everything("the command line says so")
		return found, nil
	case t.Stdin:
		if c.in == nil {
			c.in = strings.NewReader("")
		}
		return found, targets.Read(c.in, &found.set)
	}
	root := git(ctx, "rev-parse", "--show-toplevel")
	if root == "" {
		return found, wrongUse("targets", "what changed can only be found out in a Git checkout")
	}
	var err error
	if found.base, found.head, err = t.compared(ctx); err != nil {
		return found, err
	}
	found.files = 0
	switch {
	case t.Nx:
		return found, t.nx(ctx, root, &found)
	case t.Bazel != "":
		return found, t.bazel(ctx, root, &found)
	}
	rules, err := t.rules(root)
	if err != nil {
		return found, err
	}
	if t.Go != "" {
		return found, t.goPackages(ctx, root, rules, &found)
	}
	if rules.Empty() {
		return found, wrongUse("targets", "nothing says which target a file belongs to: give --go, --bazel or --nx, or rules in .signalbox.yaml or as flags")
	}
	return found, found.changed(ctx, root, func(file string) error {
		rules.Impacted(file, &found.set)
		return nil
	})
}

// compared is which two commits show what the pull request changes. Where the
// Git host's merge of it is checked out, that against what it was merged into:
// for this the history behind the two need not be there.
func (t *targetsCommand) compared(ctx context.Context) (base, head string, err error) {
	f, pullHead := ciFacts(os.Getenv)
	around(ctx, &f)
	if t.Base == "" && f.Base != "" && f.Tree != "" && f.CI == "GitHub Actions" {
		return f.Base, f.Commit, nil
	}
	head = "HEAD"
	for _, commit := range []string{t.Sha, pullHead} {
		if commitID(commit) && git(ctx, "cat-file", "-t", commit) == "commit" {
			head = commit
			break
		}
	}
	from := t.Base
	if from == "" {
		remote := remoteOf(ctx)
		branch := cmp.Or(t.Branch, f.Target)
		if branch == "" {
			branch = defaultBranch(ctx, remote)
		}
		if branch == "" {
			return "", "", wrongUse("targets", "what to compare with is not known: give --base, or --branch")
		}
		from = "refs/remotes/" + remote + "/" + branch
	}
	head = git(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", head+"^{commit}")
	given := from
	if from = git(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", from+"^{commit}"); from == "" {
		return "", "", wrongUse("targets", "%s is not in this checkout: fetch it (actions/checkout: fetch-depth: 0), or give another one with --base", given)
	}
	if base = git(ctx, "merge-base", from, head); base == "" {
		return "", "", wrongUse("targets", "this checkout does not go back to where the pull request left %s: fetch its history (actions/checkout: fetch-depth: 0; elsewhere: git fetch --unshallow)", given)
	}
	return base, head, nil
}

// changed calls each for every file that differs, and counts them. A renamed
// file is two: the old name and the new one.
func (i *impact) changed(ctx context.Context, root string, each func(string) error) error {
	cmd := gitCommand(ctx, "diff-tree", "-r", "--name-only", "-z", "--no-renames", i.base, i.head)
	cmd.Dir = root
	return outputOf(cmd, func(out io.Reader) error {
		files := bufio.NewScanner(out)
		files.Buffer(nil, 1<<20)
		files.Split(func(data []byte, atEOF bool) (int, []byte, error) {
			if n := bytes.IndexByte(data, 0); n >= 0 {
				return n + 1, data[:n], nil
			}
			return 0, nil, nil
		})
		for files.Scan() {
			i.files++
			if err := each(files.Text()); err != nil {
				return err
			}
		}
		return files.Err()
	})
}

// headIsCheckedOut are the CI systems, "" for none, that test a pull request at
// its head. With others what is checked out may be a merge that nobody but them
// knows: then the server takes the head that the pull request has.
var headIsCheckedOut = []string{"", "CircleCI", "Buildkite"}

// sentTargets is where targets were uploaded to.
type sentTargets struct {
	pull   int
	sha    string // "" = the one that the pull request has
	branch string
	repo   string
}

// upload sends the targets.
func (t *targetsCommand) upload(ctx context.Context, c console, found *impact) (*sentTargets, error) {
	f, head := ciFacts(os.Getenv)
	run := ""
	if f.Fork && f.CI == "GitHub Actions" {
		run = os.Getenv("GITHUB_RUN_ID")
	}
	q, number, err := t.findAs(ctx, c, api.StandIn{ForkRun: run})
	if err != nil {
		return nil, err
	}
	around(ctx, &f)
	sent := &sentTargets{pull: number, branch: q.Branch, repo: q.Repo(), sha: strings.ToLower(cmp.Or(t.Sha, f.Head, head))}
	if sent.sha == "" && slices.Contains(headIsCheckedOut, f.CI) {
		sent.sha = f.Commit
	}
	pull := map[string]any{"number": number}
	if sent.sha != "" {
		pull["sha"] = sent.sha
	}
	more := map[string]any{"pr": pull, "impactedTargets": append([]string{}, found.set.Names()...)}
	if _, all := found.set.All(); all {
		more["impactedTargets"] = "ALL"
	}
	return sent, q.Call(ctx, "setImpactedTargets", more, nil)
}

// shownTargets bounds how many targets are listed for people.
const shownTargets = 50

// printedTargets is the result as JSON.
type printedTargets struct {
	All     bool     `json:"all"`
	Why     string   `json:"why"`     // of all; "" if not all are
	Targets []string `json:"targets"` // empty if all are
	Files   int      `json:"files"`   // that changed; -1 if nothing was compared
	Base    string   `json:"base"`
	Head    string   `json:"head"`
	PR      int      `json:"pr"`  // that they were uploaded for; 0 if they were not
	Sha     string   `json:"sha"` // likewise
}

// print says what is impacted, why, and where it was uploaded; nil: nowhere.
func (i *impact) print(c console, asJSON bool, sent *sentTargets) error {
	why, all := i.set.All()
	if asJSON {
		out := printedTargets{All: all, Why: why, Targets: append([]string{}, i.set.Names()...), Files: i.files, Base: i.base, Head: i.head}
		if sent != nil {
			out.PR, out.Sha = sent.pull, sent.sha
		}
		return printJSON(c, out)
	}
	w := bufio.NewWriter(c.out)
	compared := ""
	if i.files >= 0 {
		compared = fmt.Sprintf(" (%s changed between %.12s and %.12s)", counted(i.files, "file"), i.base, i.head)
	}
	if all {
		fmt.Fprintf(w, "Everything is impacted: %s%s.\n", printable(why), compared)
	} else {
		fmt.Fprintf(w, "%s impacted%s.\n", map[bool]string{true: "1 target is", false: fmt.Sprintf("%d targets are", i.set.Len())}[i.set.Len() == 1], compared)
		i.list(w)
	}
	if sent != nil {
		fmt.Fprintf(w, "Uploaded for #%d, head %.12s, to the queue for %s of %s.\n", sent.pull, cmp.Or(sent.sha, "as it is"), sent.branch, sent.repo)
	}
	return w.Flush()
}

// list writes the targets, each with the file that is why.
func (i *impact) list(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for n, name := range i.set.Names() {
		if n == shownTargets {
			fmt.Fprintf(table, "  and %d more\n", i.set.Len()-n)
			break
		}
		cause := i.set.Why(name)
		more := ""
		if cause.More > 0 {
			more = fmt.Sprintf(" and %d more", cause.More)
		}
		why := ""
		if cause.File != "" {
			why = "\t" + printable(cause.File) + more
		}
		fmt.Fprintf(table, "  %s%s\n", printable(name), why)
	}
	_ = table.Flush() // an error of w is met again by its own Flush
}
