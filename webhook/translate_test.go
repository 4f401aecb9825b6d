package webhook

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-github/v60/github"

	"signalbox/queue"
)

// Every payload in testdata is a delivery; its name says what it shows. All
// that they mean stands in testdata/golden.txt, to be read as one story:
// "go test ./webhook -rewrite" writes it anew.

var rewrite = flag.Bool("rewrite", false, "write testdata/golden.txt anew")

var testTranslator = translator{
	host: "github.com", appID: 1234, appSlug: "signalbox", marker: "<!-- signalbox:",
	checkbox: "<!-- signalbox:submit -->", prefixes: []string{"/signalbox", "/trunk"},
}

var testNow = time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)

// payloads are the files of testdata: name without .json → content.
func payloads(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/*.*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no payloads: %v", err)
	}
	all := map[string][]byte{}
	for _, f := range files {
		body, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(f), ".json")] = body
	}
	return all
}

func eventOf(name string) string {
	event, _, _ := strings.Cut(name, ".")
	return event
}

func TestPayloadsMeanWhatTheGoldenFileSays(t *testing.T) {
	t.Parallel()
	all := payloads(t)
	var got strings.Builder
	for _, name := range sortedKeys(all) {
		event, err := parse(eventOf(name), all[name])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		describe(t, &got, name, testTranslator.translate(event, testNow))
	}
	golden(t, "golden.txt", got.String())
}

// golden compares what payloads mean with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("payloads mean something else than testdata/%s (-want +got):\n%s", name, diff)
	}
}

func describe(t *testing.T, b *strings.Builder, name string, said translation) {
	fmt.Fprintf(b, "%s\n", name)
	if said.empty() {
		fmt.Fprintf(b, "    nothing\n")
		return
	}
	for _, f := range said.facts {
		body, err := queue.EncodeFact(f)
		if err != nil {
			t.Fatal(err)
		}
		back, err := queue.DecodeFact(f.Kind(), body)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(f, back); diff != "" {
			t.Errorf("%s: the fact changes in storage (-before +after):\n%s", name, diff)
		}
		fmt.Fprintf(b, "    %d %s %s\n", said.repo, f.Kind(), body)
	}
	for _, c := range said.connections {
		body, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(b, "    connection %s\n", body)
	}
}

// Every row of the table meets payloads from which any object is missing, and
// the zero event. Nothing may panic.
func TestMissingObjectsNeverPanic(t *testing.T) {
	t.Parallel()
	for name, body := range payloads(t) {
		var whole any
		if err := json.Unmarshal(body, &whole); err != nil {
			t.Fatal(err)
		}
		for _, broken := range withHoles(whole) {
			mutilated, err := json.Marshal(broken)
			if err != nil {
				t.Fatal(err)
			}
			check(t, eventOf(name), mutilated)
		}
	}
	for _, event := range append(github.MessageTypes(), "repository_ruleset") {
		for _, body := range []string{`{}`, `null`, `[]`, `{"action":"created"}`, `{"action":null,"repository":null}`} {
			check(t, event, []byte(body))
		}
	}
}

// withHoles returns copies of a value, each with one part null, missing, or of
// another type.
func withHoles(v any) []any {
	holes := []any{nil, "1", []any{nil}}
	switch v := v.(type) {
	case map[string]any:
		for key, part := range v {
			for _, hole := range withHoles(part) {
				holes = append(holes, with(v, key, hole))
			}
			without := with(v, key, nil)
			delete(without, key)
			holes = append(holes, without)
		}
	case []any:
		for _, part := range v {
			for _, hole := range withHoles(part) {
				holes = append(holes, []any{hole})
			}
		}
	}
	return holes
}

func with(m map[string]any, key string, value any) map[string]any {
	changed := make(map[string]any, len(m))
	for k, v := range m {
		changed[k] = v
	}
	changed[key] = value
	return changed
}

// check translates a hostile payload and holds what comes of it to what facts
// promise.
func check(t *testing.T, event string, body []byte) {
	t.Helper()
	said := doubt(event, body)
	if parsed, err := parse(event, body); err == nil {
		said = testTranslator.translate(parsed, testNow)
	}
	for _, f := range said.facts {
		encoded, err := queue.EncodeFact(f)
		if err != nil {
			t.Fatalf("%s %s: %v", event, body, err)
		}
		if len(encoded) > 16<<10 {
			t.Errorf("%s: a fact of %d bytes", event, len(encoded))
		}
		if strings.Contains(string(encoded), `\u0000`) {
			t.Errorf("%s: NUL in %s", event, encoded)
		}
		if s := f.Subject(); s == (queue.Subject{}) || s.PR < 0 {
			t.Errorf("%s: %s goes nowhere: %s", event, f.Kind(), encoded)
		}
	}
}

func FuzzTranslate(f *testing.F) {
	for name, body := range payloads(f) {
		f.Add(eventOf(name), body)
	}
	for event, list := range keptExamples(f) {
		for _, body := range list {
			f.Add(event, []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, event string, body []byte) { check(t, event, body) })
}

// BC-25 and BC-26: events about a fork's commit name no pull request, or one of
// another repository.
func TestCheckRunsFollowTheCommitAndNotThePullRequestList(t *testing.T) {
	t.Parallel()
	all := payloads(t)
	plain := all["check_run.completed"]
	for _, name := range []string{"check_run.of_a_fork_without_pull_requests", "check_run.naming_another_repositorys_pull_request"} {
		if diff := cmp.Diff(factsOf(t, plain), factsOf(t, all[name])); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", name, diff)
		}
	}
}

func factsOf(t *testing.T, body []byte) []queue.Fact {
	t.Helper()
	event, err := parse("check_run", body)
	if err != nil {
		t.Fatal(err)
	}
	return testTranslator.translate(event, testNow).facts
}

func TestMergeTitle(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, body, want string }{
		{"is found on a line of its own", "Why\n\nmerge-commit-title: Fix it\n\nMore", "Fix it"},
		{"is found in any case, with carriage returns", "Merge-Commit-Title:  Fix it \r\nx", "Fix it"},
		{"is the first of two", "merge-commit-title: one\nmerge-commit-title: two", "one"},
		{"is none in a template's comment", "<!-- e.g.\nmerge-commit-title: x\n-->\ntext", ""},
		{"is none in a code block", "```\nmerge-commit-title: x\n```", ""},
		{"is none in a quote", "> merge-commit-title: x", ""},
		{"is none when empty", "merge-commit-title:   ", ""},
		{"is none in a sentence", "use merge-commit-title: x", ""},
		{"loses control characters", "merge-commit-title: a\x00b\x1b[31m", "a b [31m"},
		{"is cut", "merge-commit-title: " + strings.Repeat("é", 300), strings.Repeat("é", 256)},
		{"of nothing is nothing", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := MergeTitle(tt.body); got != tt.want {
				t.Errorf("MergeTitle(%q) = %q, want %q", tt.body, got, tt.want)
			}
		})
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// BC-26: a report on a check lists pull requests, and for a fork they are those
// of another repository, with numbers that mean something else here. The commit
// alone counts, so what is listed changes nothing.
func TestBC26PullRequestsThatAReportListsMeanNothing(t *testing.T) {
	t.Parallel()
	for name, body := range payloads(t) {
		if eventOf(name) != "check_run" {
			continue
		}
		read := func(list ...any) []queue.Fact {
			var whole map[string]any
			if err := json.Unmarshal(body, &whole); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if run, ok := whole["check_run"].(map[string]any); ok {
				run["pull_requests"] = list
			}
			changed, err := json.Marshal(whole)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			event, err := parse("check_run", changed)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return testTranslator.translate(event, testNow).facts
		}
		elsewhere := map[string]any{"number": 7, "base": map[string]any{"repo": map[string]any{"id": 666}}}
		want, got := read(), read(elsewhere, nil)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: what it lists makes a difference:\n%s", name, diff)
		}
		for _, f := range got {
			if about := f.Subject(); about.PR != 0 || about.Commit == "" {
				t.Errorf("%s: %s is about %+v, want a commit and no pull request", name, f.Kind(), about)
			}
		}
	}
}
