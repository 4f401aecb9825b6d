package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"signalbox/targets"
)

// maxComplaint bounds what is kept of what a tool says on standard error, in
// bytes.
const maxComplaint = 8 << 10

// outputOf runs a program and has its output read as it comes. The error of a
// program that fails has the end of what it complained about.
func outputOf(cmd *exec.Cmd, read func(io.Reader) error, fine ...int) error {
	complaint := &tail{most: maxComplaint}
	cmd.Stderr = complaint
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%s is not on this machine, or not on PATH", filepath.Base(cmd.Path))
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", filepath.Base(cmd.Path), err)
	}
	readErr := read(out)
	_, _ = io.Copy(io.Discard, out) // a program that cannot write would never end
	err = cmd.Wait()
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended) && slices.Contains(fine, ended.ExitCode()):
		return readErr
	case err != nil:
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args[:min(2, len(cmd.Args))], " "), err, bytes.TrimSpace(complaint.text))
	}
	return readErr
}

// tail keeps the end of what is written to it.
type tail struct {
	most int
	text []byte
}

// Write keeps what fits.
func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - t.most; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

// nx asks Nx which projects are affected.
func (t *targetsCommand) nx(ctx context.Context, root string, found *impact) error {
	if err := found.changed(ctx, root, func(string) error { return nil }); err != nil {
		return err
	}
	program := "nx"
	if local := filepath.Join(root, "node_modules", ".bin", "nx"); isFile(local) {
		program = local
	}
	cmd := exec.CommandContext(ctx, program, "show", "projects", "--affected", "--base="+found.base, "--head="+found.head, "--json")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "NX_DAEMON=false")
	return outputOf(cmd, func(out io.Reader) error { return targets.Read(out, &found.set) })
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// goPackages asks go list what imports what. Files that belong to no package
// are a matter of the rules.
func (t *targetsCommand) goPackages(ctx context.Context, root string, rules targets.Rules, found *impact) error {
	cmd := exec.CommandContext(ctx, "go", "list", "-json="+targets.GoListFields, "--", t.Go)
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return fmt.Errorf("find the root of the checkout: %w", err)
	}
	var packages *targets.GoPackages
	if err := outputOf(cmd, func(out io.Reader) (err error) {
		packages, err = targets.ReadGoPackages(out, real)
		return err
	}); err != nil {
		return err
	}
	err = found.changed(ctx, root, func(file string) error {
		if rules.Special(file, &found.set) {
			return nil
		}
		named, inPackage := rules.Named(file, &found.set), packages.Changed(file, &found.set)
		if !named && !inPackage {
			rules.Rest(file, &found.set)
		}
		return nil
	})
	packages.Impacted(&found.set)
	return err
}

// bazelAll are files of Bazel of which everything depends on: where other
// repositories come from, and how rules are made.
var bazelAll = []string{"WORKSPACE", "WORKSPACE.bazel", "WORKSPACE.bzlmod", "MODULE.bazel", "MODULE.bazel.lock", ".bazelrc", ".bazelversion", ".bazelignore"}

// bazel asks Bazel what depends on the files that changed, in two questions. The
// first one is which of them Bazel knows, and for those it does not: it is asked
// with --keep_going, because it fails for a file that no rule names, which
// impacts nothing. The second one has to succeed.
func (t *targetsCommand) bazel(ctx context.Context, root string, found *impact) error {
	if strings.HasPrefix(t.Bazel, "-") {
		return wrongUse("targets", "bazel is %q: give a universe such as //...", t.Bazel)
	}
	dir, err := os.MkdirTemp("", "signalbox-targets-")
	if err != nil {
		return fmt.Errorf("make a folder for the questions to Bazel: %w", err)
	}
	defer os.RemoveAll(dir)
	changed, dependants := filepath.Join(dir, "changed"), filepath.Join(dir, "dependants")
	asked, known := 0, 0
	err = writtenQuery(changed, "", "", func(add func(string)) error {
		return found.changed(ctx, root, func(file string) error {
			thing, everything := bazelThing(root, file)
			if everything != "" {
				found.set.Everything(everything)
				return nil
			}
			asked++
			add(thing)
			return nil
		})
	})
	if _, all := found.set.All(); err != nil || all || asked == 0 {
		return err
	}
	err = writtenQuery(dependants, "rdeps("+t.Bazel+", ", ")", func(add func(string)) error {
		return bazelQuery(ctx, root, changed, func(label string) error {
			known++
			add(label)
			return nil
		}, "--keep_going")
	})
	if err != nil || known == 0 {
		return err
	}
	return bazelQuery(ctx, root, dependants, func(label string) error {
		return targets.Read(strings.NewReader(label), &found.set)
	})
}

// bazelThing is what Bazel is asked about for a file that changed: the file, or
// all of a package whose rules changed or that has lost the file. Or it is why
// everything is impacted.
func bazelThing(root, file string) (thing, everything string) {
	name := path.Base(file)
	there := isFile(filepath.Join(root, filepath.FromSlash(file)))
	switch isPackage := name == "BUILD" || name == "BUILD.bazel"; {
	case strings.HasSuffix(name, ".bzl"), slices.Contains(bazelAll, name):
		return "", file + " changed"
	case strings.ContainsAny(file, "'\n"):
		return "", fmt.Sprintf("%q changed, which a question to Bazel cannot name", file)
	case isPackage && !there:
		return "", file + " is gone, and with it a package"
	case isPackage:
		return "//" + inRoot(path.Dir(file)) + ":all-targets", ""
	case there:
		return file, ""
	default:
		return "//" + packageOf(root, file) + ":all-targets", ""
	}
}

// inRoot is a folder without the dot that the root has for a name.
func inRoot(dir string) string {
	if dir == "." {
		return ""
	}
	return dir
}

// packageOf is the folder of the Bazel package that a file would belong to.
func packageOf(root, file string) string {
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		for _, name := range []string{"BUILD", "BUILD.bazel"} {
			if isFile(filepath.Join(root, filepath.FromSlash(dir), name)) {
				return inRoot(dir)
			}
		}
		if dir == "." || dir == "/" {
			return ""
		}
	}
}

// writtenQuery writes a query about a set of things into a file: there may be
// more than a command line takes.
func writtenQuery(name, before, after string, each func(add func(string)) error) error {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write a question to Bazel: %w", err)
	}
	w := bufio.NewWriter(f)
	fmt.Fprint(w, before, "set(")
	err = each(func(thing string) {
		quote := "'"
		if strings.Contains(thing, quote) { // of a label, which then cannot have the other one
			quote = `"`
		}
		fmt.Fprintln(w, quote+thing+quote)
	})
	fmt.Fprint(w, ")", after)
	return errors.Join(err, w.Flush(), f.Close())
}

// bazelQuery asks a query that stands in a file.
func bazelQuery(ctx context.Context, root, file string, each func(string) error, flags ...string) error {
	args := append([]string{"query", "--output=label", "--order_output=no", "--noshow_progress", "--query_file=" + file}, flags...)
	cmd := exec.CommandContext(ctx, "bazel", args...)
	cmd.Dir = root
	var fine []int
	if len(flags) > 0 {
		fine = []int{3} // some things were not found
	}
	return outputOf(cmd, func(out io.Reader) error {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if err := each(lines.Text()); err != nil {
				return err
			}
		}
		return lines.Err()
	}, fine...)
}
