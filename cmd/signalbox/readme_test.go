package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"signalbox/queue"
	"signalbox/rest"
)

// TestTheManualIsTrue holds the parts of README.md that the code knows better:
// the settings, the states, the endpoints and the metrics.
func TestTheManualIsTrue(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	manual := string(text)
	for name, part := range map[string]string{"table of settings": settingsTable(t), "diagram of states": stateDiagram()} {
		if !strings.Contains(manual, part) {
			t.Errorf("README.md must contain this %s:\n%s", name, part)
		}
	}
	for _, name := range slices.Concat(endpoints(t), metricNames(t)) {
		if !strings.Contains(manual, "`"+name+"`") {
			t.Errorf("README.md does not name `%s`", name)
		}
	}
	for _, first := range []string{"    make demo", "    make test"} {
		if i := strings.Index(manual, first); i < 0 || strings.Count(manual[:i], "\n") > 30 {
			t.Errorf("README.md does not begin with %q", first)
		}
	}
}

// stateDiagram is queue.Transitions as a diagram.
func stateDiagram() string {
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n")
	for _, t := range queue.Transitions {
		from := string(t.From)
		if t.From == queue.Never {
			from = "[*]"
		}
		b.WriteString("    " + from + " --> " + string(t.To) + "\n")
	}
	b.WriteString("```\n")
	return b.String()
}

// endpoints are the paths of the API, from its own description.
func endpoints(t *testing.T) []string {
	t.Helper()
	w := httptest.NewRecorder()
	rest.New(rest.Config{Log: discard}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/openapi.json", nil))
	var described struct {
		Paths map[string]any
	}
	if err := json.Unmarshal(w.Body.Bytes(), &described); err != nil || len(described.Paths) == 0 {
		t.Fatalf("read the description of the API: %v: %.200s", err, w.Body)
	}
	var paths []string
	for path := range described.Paths {
		paths = append(paths, "/v1"+strings.TrimPrefix(path, "/v1"))
	}
	slices.Sort(paths)
	return paths
}

// metricNames are the names of our metrics, in the files that make them.
func metricNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, file := range []string{"metrics.go", "backlog.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`"(signalbox_[a-z_]+)"`).FindAllStringSubmatch(string(source), -1) {
			names = append(names, m[1])
		}
	}
	return names
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
