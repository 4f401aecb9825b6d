package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	prom "github.com/prometheus/common/model"

	"signalbox/docs/docstest"
	"signalbox/queue"
	"signalbox/rest"
)

// TestTheReferencesAreWhatTheCodeSays: the tables of settings, endpoints,
// metrics and moves. "-update" writes them anew.
func TestTheReferencesAreWhatTheCodeSays(t *testing.T) {
	t.Parallel()
	docstest.Region(t, "../../docs/settings.md", "program settings", settingsTable(t), *update)
	docstest.Region(t, "../../docs/api.md", "endpoints", endpointsTable(t), *update)
	docstest.Region(t, "../../docs/concepts.md", "moves", movesTable(), *update)
}

// TestTheMetricsReferenceIsWhatIsMeasured: names, labels and words are those of
// the metrics themselves.
func TestTheMetricsReferenceIsWhatIsMeasured(t *testing.T) {
	t.Parallel()
	m, d := measured(t)
	page := httptest.NewRecorder()
	m.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	docstest.Region(t, "../../docs/metrics.md", "process metrics", metricsTable(t, page.Body.String(), "signalbox_"), *update)
	docstest.Region(t, "../../docs/metrics.md", "queue metrics", metricsTable(t, apiMetrics(t, d), "mq_"), *update)
}

// settingsTable is every flag of serve as a table in Markdown.
func settingsTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| variable | flag | default | what it is |\n|---|---|---|---|\n")
	for _, f := range flagsOf(t, "serve") {
		value := "none"
		if f.HasDefault {
			value = "`" + f.Default + "`"
		}
		b.WriteString("| `" + strings.Join(f.Envs, "` or `") + "` | `--" + f.Name + "` | " + value + " | " + f.Help + " |\n")
	}
	return b.String()
}

// endpointsTable is every path of the API, from its own description.
func endpointsTable(t *testing.T) string {
	t.Helper()
	w := httptest.NewRecorder()
	rest.New(rest.Config{Log: discard}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/openapi.json", nil))
	var described struct {
		Paths map[string]map[string]struct {
			Summary string
			Scope   string `json:"x-scope"`
			Tags    []string
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &described); err != nil || len(described.Paths) == 0 {
		t.Fatalf("read the description of the API: %v: %.200s", err, w.Body)
	}
	var rows []string
	for path, methods := range described.Paths {
		for method, op := range methods {
			if op.Summary == "" {
				t.Errorf("%s %s has no summary", method, path)
			}
			scope := op.Scope
			if scope == "" {
				scope = "none"
			}
			rows = append(rows, fmt.Sprintf("| %s | `%s /v1%s` | %s | %s |\n", strings.Join(op.Tags, ", "), strings.ToUpper(method), strings.TrimPrefix(path, "/v1"), scope, op.Summary))
		}
	}
	slices.Sort(rows)
	return "| about | endpoint | scope | what it does |\n|---|---|---|---|\n" + strings.Join(rows, "")
}

// movesTable is queue.Transitions with the reasons of each move.
func movesTable() string {
	var b strings.Builder
	b.WriteString("| from | to | because |\n|---|---|---|\n")
	for _, t := range queue.Transitions {
		from := "`" + string(t.From) + "`"
		if t.From == queue.Never {
			from = "(new)"
		}
		var reasons []string
		for _, why := range t.Reasons {
			_, heading, _ := strings.Cut(queue.HelpPath(string(why)), "#")
			reasons = append(reasons, fmt.Sprintf("[%s](troubleshooting.md#%s)", why, heading))
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", from, t.To, strings.Join(reasons, ", "))
	}
	return b.String()
}

// metricsTable is what a page of metrics says of itself.
func metricsTable(t *testing.T, page, prefix string) string {
	t.Helper()
	parser := expfmt.NewTextParser(prom.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for name, family := range families {
		if strings.HasPrefix(name, prefix) {
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, strings.ToLower(family.GetType().String()), labelsOf(family), family.GetHelp()))
		}
	}
	if len(rows) < 5 {
		t.Fatalf("%d metrics begin with %s", len(rows), prefix)
	}
	slices.Sort(rows)
	return "| metric | kind | labels | what it is |\n|---|---|---|---|\n" + strings.Join(rows, "")
}

func labelsOf(family *dto.MetricFamily) string {
	var names []string
	for _, m := range family.GetMetric() {
		for _, l := range m.GetLabel() {
			if name := "`" + l.GetName() + "`"; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return strings.Join(names, " ")
}

// documents is the text of all documents that people read.
func documents(t *testing.T) string {
	t.Helper()
	var all bytes.Buffer
	for _, pattern := range []string{"../../README.md", "../../docs/*.md"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
	}
	return all.String()
}

// TestEverythingThatAnswersIsDocumented: each command, condition, check of the
// set-up, code and metric stands in a document.
func TestEverythingThatAnswersIsDocumented(t *testing.T) {
	t.Parallel()
	text := documents(t)
	help, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range codes(t) {
		if c.linked && !strings.Contains(string(help), "\n### "+c.code+"\n") {
			t.Errorf("docs/troubleshooting.md has no section for %s, which messages link to", c.code)
		}
		if !strings.Contains(text, c.code) {
			t.Errorf("no document explains %s, a constant of %s", c.code, c.file)
		}
	}
	for what, names := range map[string][]string{
		"the condition":           namesOf(t, "../../queue/*.go", `(?:condition\(|Condition\{)"([a-z_]+)"`),
		"the check of the set-up": namesOf(t, "../../gitprovider/github/preflight.go", `\{"([a-z_]+)", \(\*preflight\)`),
		"the metric":              metricNames(t),
		"the command":             commandNames(t),
	} {
		for _, name := range names {
			if !strings.Contains(text, "`"+name+"`") && !strings.Contains(text, "`"+name+" ") && !strings.Contains(text, "    "+name) {
				t.Errorf("no document explains %s %s", what, name)
			}
		}
	}
}

// namesOf are what a pattern finds in Go files that are no tests.
func namesOf(t *testing.T, files, pattern string) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(files)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(source), -1) {
			if !slices.Contains(names, m[1]) {
				names = append(names, m[1])
			}
		}
	}
	if len(names) < 5 {
		t.Errorf("%s in %s finds only %d names", pattern, files, len(names))
	}
	return names
}

// metricNames are the names of our metrics, in the files that make them.
func metricNames(t *testing.T) []string {
	return namesOf(t, "*.go", `"(signalbox_[a-z_]+)"`)
}

// commandNames are all commands, such as "signalbox token create".
func commandNames(t *testing.T) (names []string) {
	t.Helper()
	for _, node := range commandLine(t).Model.Leaves(true) {
		names = append(names, node.FullPath())
	}
	return names
}

// code is a word that we answer with.
type code struct {
	code, file string
	linked     bool // messages link to a section about it
}

var codeText = regexp.MustCompile(`^"([A-Z]+(?:_[A-Z]+)+)"$`)

// codes are the constants that are codes: the reasons of the queue, the errors
// of the API and the webhook address, and those of test reports.
func codes(t *testing.T) (all []code) {
	t.Helper()
	for _, source := range []struct {
		files  string
		linked bool
	}{
		{"../../queue/reason.go", true}, {"../../queue/fact.go", true}, {"../../rest/failure.go", true},
		{"../../flaky/quarantine.go", false}, {"../../flaky/status.go", false}, {"../../flaky/report/report.go", false},
	} {
		paths, err := filepath.Glob(source.files)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v", source.files, err)
		}
		before := len(all)
		for _, path := range paths {
			for _, c := range constants(t, path) {
				all = append(all, code{c, path, source.linked})
			}
		}
		if len(all) == before {
			t.Errorf("%s has no codes", source.files)
		}
	}
	// The receiver of webhooks writes its codes where it refuses.
	for _, c := range namesOf(t, "../../webhook/receiver.go", `"([A-Z]+(?:_[A-Z]+)+)"`) {
		all = append(all, code{c, "webhook/receiver.go", true})
	}
	return all
}

// constants are the constants of a file that look like codes.
func constants(t *testing.T, path string) (found []string) {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(path, "_test.go") {
		return nil
	}
	for _, decl := range tree.Decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, spec := range g.Specs {
			for _, value := range spec.(*ast.ValueSpec).Values {
				if lit, ok := value.(*ast.BasicLit); ok {
					if m := codeText.FindStringSubmatch(lit.Value); m != nil && !slices.Contains(found, m[1]) {
						found = append(found, m[1])
					}
				}
			}
		}
	}
	return found
}
