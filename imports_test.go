package signalbox_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "signalbox"

// ours says which of our packages each package may import. Every package has a
// row. Adapters (webhook, rest, web, db, gitprovider/…, notify) are in nobody's
// row but cmd's: what they share are the nouns of queue, flaky and account.
// Test files may import more.
var ours = map[string][]string{
	"cmd/signalbox":          {"*"},
	"queue":                  {},
	"queue/engine":           {"queue", "queue/texts", "gitprovider"},
	"queue/texts":            {"queue", "gitprovider"},
	"queue/proof":            {"queue"},
	"queue/sim":              {"queue", "queue/proof"},
	"account":                {},
	"api":                    {}, // the caller's side of rest: it knows the contract, not our code
	"gitprovider":            {"queue"},
	"gitprovider/github":     {"queue", "queue/texts", "account", "gitprovider", "gitprovider/mirror"},
	"gitprovider/mirror":     {"queue", "gitprovider"},
	"gitprovider/githubsim":  {},
	"gitprovider/githubspec": {}, // tests alone use it
	"webhook":                {"queue", "account"},
	"notify":                 {"queue", "flaky", "account"},
	"rest":                   {"queue", "flaky", "account"},
	"flaky":                  {},
	"flaky/report":           {"flaky"},
	"targets":                {}, // the command line's reading of repositories and build tools: it knows no server
	"web":                    {"queue", "flaky", "account"},
	"web/browsertest":        {},
	"db":                     {"queue", "flaky", "account", "migrations"},
	"db/pgserver":            {},
	"db/dbtest":              {"db", "db/pgserver", "migrations"},
	"migrations":             {},
	"docs":                   {}, // the documents, for the pages to show
	"docs/docstest":          {}, // tests alone use it
	"benchtest":              {}, // benchmarks alone use it
	"":                       {}, // this folder: the App's manifest
}

// others says which of our packages may import what belongs to one technology.
var others = map[string][]string{
	"database/sql":                        {"db", "db/pgserver", "db/dbtest", "benchtest", "cmd/signalbox"},
	"github.com/jmoiron/sqlx":             {"db", "db/dbtest"},
	"github.com/lib/pq":                   {"db", "db/pgserver", "db/dbtest", "cmd/signalbox"},
	"github.com/jackc/pgx/":               {"cmd/signalbox"},
	"github.com/google/go-github/":        {"gitprovider/github", "gitprovider/githubsim", "webhook"},
	"github.com/bradleyfalzon/":           {"gitprovider/github"},
	"golang.org/x/oauth2":                 {"gitprovider/github"},
	"github.com/julienschmidt/":           {"rest", "web"},
	"github.com/slack-go/":                {"notify"},
	"github.com/standard-webhooks/":       {"notify"},
	"github.com/chromedp/":                {"web/browsertest"},
	"github.com/yuin/goldmark":            {"web"},
	"github.com/alecthomas/kong":          {"cmd/signalbox"},
	"github.com/fergusstrange/":           {"db/pgserver"},
	"github.com/prometheus/client_golang": {"rest", "cmd/signalbox"},
	"os/exec":                             {"gitprovider/mirror", "gitprovider/githubsim", "db/pgserver", "cmd/signalbox"},
}

// goPackage is what "go list -json" says of a package.
type goPackage struct {
	ImportPath, Dir string
	GoFiles         []string
	Imports         []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var all []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p goPackage
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func short(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
}

// TestImportsFollowTheTable: a package imports what its row allows.
func TestImportsFollowTheTable(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		name := short(p.ImportPath)
		allowed, listed := ours[name]
		if !listed {
			t.Errorf("package %s has no row in the table of imports", name)
			continue
		}
		for _, i := range p.Imports {
			if i == module || strings.HasPrefix(i, module+"/") {
				if !slices.Contains(allowed, "*") && !slices.Contains(allowed, short(i)) {
					t.Errorf("%s imports %s; it may import %v", name, short(i), allowed)
				}
				continue
			}
			for what, who := range others {
				if (i == what || strings.HasPrefix(i, strings.TrimSuffix(what, "/")+"/")) && !slices.Contains(who, name) {
					t.Errorf("%s imports %s, which only %v may", name, i, who)
				}
			}
		}
	}
}

// pure are packages that do not know the time and do nothing to the world.
var pure = []string{"queue", "queue/proof", "flaky"}

// impure are packages and names that a pure package must not use, and
// whatever is outside the standard library, but for uuid (see forbidden).
var impure = []string{"context", "crypto/rand", "database", "io/fs", "log", "math/rand", "net", "os", "runtime", "sync", "syscall", "testing"}

// forbidden are names of packages that are allowed otherwise: what reads the
// clock or waits for it, and what is different each time.
var forbidden = map[string][]string{
	"time": {"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"},
	"uuid": {"New", "NewString", "NewRandom", "NewUUID", "NewV6", "NewV7", "Must", "NewDCEGroup", "NewDCEPerson"},
}

// TestTheCoreIsPure: package queue decides from its arguments alone.
func TestTheCoreIsPure(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if !slices.Contains(pure, short(p.ImportPath)) {
			continue
		}
		for _, i := range p.Imports {
			root, _, _ := strings.Cut(i, "/")
			if strings.Contains(root, ".") && i != "github.com/google/uuid" {
				t.Errorf("%s imports %s; it uses the standard library alone", p.ImportPath, i)
			}
			for _, no := range impure {
				if i == no || strings.HasPrefix(i, no+"/") {
					t.Errorf("%s imports %s", p.ImportPath, i)
				}
			}
		}
		for _, file := range p.GoFiles {
			onlyArguments(t, filepath.Join(p.Dir, file))
		}
	}
}

// onlyArguments reports where a file uses what is forbidden.
func onlyArguments(t *testing.T, path string) {
	t.Helper()
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && slices.Contains(forbidden[x.Name], s.Sel.Name) {
				t.Errorf("%s uses %s.%s: what a decision depends on is an argument", files.Position(s.Pos()), x.Name, s.Sel.Name)
			}
		}
		return true
	})
}
