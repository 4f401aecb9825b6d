package targets

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// GoPackages are the packages of a Go module and what they import. Each is a
// target by its import path. A package is impacted when one of its files
// changed, or one of a package that it, or its test, depends on. Which files
// those are depends on the platform that go list was run for.
type GoPackages struct {
	dirs    map[string]string   // import path by folder
	users   map[string][]string // who imports a package, outside of tests
	testers map[string][]string // whose tests import it
	changed map[string]string   // the first file that changed, by import path
}

// goPackage is what go list -json says of one.
type goPackage struct {
	ImportPath   string
	Dir          string
	Standard     bool
	Imports      []string
	TestImports  []string
	XTestImports []string
	Error        *struct{ Err string }
}

// GoListFields are what go list -json has to print, after the equals sign.
const GoListFields = "ImportPath,Dir,Standard,Imports,TestImports,XTestImports,Error"

// ReadGoPackages reads what go list -json prints. root is the root of the
// repository, with the same links resolved as in the folders of the packages.
func ReadGoPackages(from io.Reader, root string) (*GoPackages, error) {
	g := &GoPackages{dirs: map[string]string{}, users: map[string][]string{}, testers: map[string][]string{}, changed: map[string]string{}}
	for d := json.NewDecoder(from); ; {
		var p goPackage
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			if len(g.dirs) == 0 {
				return nil, errors.New("go list names no package of this repository")
			}
			return g, nil
		case err != nil:
			return nil, fmt.Errorf("read the output of go list -json: %w", err)
		case p.Error != nil:
			return nil, fmt.Errorf("go list cannot read %s: %s", p.ImportPath, p.Error.Err)
		case p.ImportPath == "" || p.Dir == "":
			return nil, errors.New("read the output of go list -json: there is no ImportPath or no Dir")
		case p.Standard:
			continue
		}
		dir, err := filepath.Rel(root, p.Dir)
		if err != nil || dir == ".." || strings.HasPrefix(dir, ".."+string(filepath.Separator)) {
			continue // of another module
		}
		g.dirs[filepath.ToSlash(dir)] = p.ImportPath
		for _, used := range p.Imports {
			g.users[used] = append(g.users[used], p.ImportPath)
		}
		for _, used := range slices.Concat(p.TestImports, p.XTestImports) {
			g.testers[used] = append(g.testers[used], p.ImportPath)
		}
	}
}

// Changed notes that a file changed. It reports whether that is a matter of a
// package: of the one in its folder or, for what is embedded and for the data of
// tests, in the nearest above. What decides on versions impacts everything.
func (g *GoPackages) Changed(file string, to *Set) bool {
	switch path.Base(file) {
	case "go.mod", "go.sum", "go.work", "go.work.sum":
		to.Everything(file + " changed")
		return true
	}
	if strings.HasPrefix(file, "vendor/") || strings.Contains(file, "/vendor/") {
		to.Everything(file + " changed")
		return true
	}
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		if name, ok := g.dirs[dir]; ok {
			if _, known := g.changed[name]; !known {
				g.changed[name] = file
			}
			return true
		}
		if dir == "." {
			return false
		}
	}
}

// Impacted adds all packages that depend on one of which a file changed.
func (g *GoPackages) Impacted(to *Set) {
	reached := map[string]string{}
	var line []string
	for name, file := range g.changed {
		reached[name] = file
		line = append(line, name)
	}
	slices.Sort(line)
	for len(line) > 0 {
		name := line[0]
		line = line[1:]
		for _, user := range g.users[name] {
			if _, known := reached[user]; !known {
				reached[user] = reached[name]
				line = append(line, user)
			}
		}
	}
	for name, file := range reached {
		to.Add(name, file)
	}
	for name, file := range reached { // a test is no part of what others import
		for _, tester := range g.testers[name] {
			if _, known := reached[tester]; !known {
				to.Add(tester, file)
			}
		}
	}
}
