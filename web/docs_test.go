package web

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"signalbox/docs"
	"signalbox/docs/docstest"
	"signalbox/queue"
)

// documented is a handler with the documents of the program.
func documented(t *testing.T, w *world) *Handler {
	t.Helper()
	h, err := New(Config{Store: w, Docs: docs.Files})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

var (
	hrefs   = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	idsText = regexp.MustCompile(` id="([^"]*)"`)
)

// Every document is a page, and each of their links leads to a page, a picture
// or a heading that is there.
func TestDocumentsAreServedAndTheirLinksWork(t *testing.T) {
	t.Parallel()
	h := documented(t, newWorld())
	body := func(path string) (string, int) {
		got := get(t, h, path)
		return got.Body.String(), got.Code
	}
	headings := map[string][]string{}
	for _, doc := range h.documents.order {
		text, code := body(doc.Address())
		if code != http.StatusOK || !strings.Contains(text, "<h1 id=") {
			t.Errorf("%s: %d", doc.Address(), code)
		}
		for _, m := range idsText.FindAllStringSubmatch(text, -1) {
			headings[doc.Address()] = append(headings[doc.Address()], m[1])
		}
	}
	if len(headings) < 8 || len(headings) != len(h.documents.byName) {
		t.Errorf("%d documents of %d are in the index", len(headings), len(h.documents.byName))
	}
	for _, doc := range h.documents.order {
		for _, m := range hrefs.FindAllStringSubmatch(string(doc.Body), -1) {
			if strings.HasPrefix(m[1], "https://") || strings.HasPrefix(m[1], "/docs/api") {
				continue
			}
			path, heading, _ := strings.Cut(m[1], "#")
			if path == "" {
				path = doc.Address()
			}
			if _, code := body(path); code != http.StatusOK {
				t.Errorf("%s leads to %s: %d", doc.Address(), m[1], code)
			} else if heading != "" && !slices.Contains(headings[path], heading) {
				t.Errorf("%s leads to %s, which has no such heading", doc.Address(), m[1])
			}
		}
	}
}

func TestEveryReasonHasASectionWhereItsHelpLeads(t *testing.T) {
	t.Parallel()
	text := get(t, documented(t, newWorld()), "/docs/troubleshooting").Body.String()
	for _, m := range queue.Transitions {
		for _, why := range m.Reasons {
			_, heading, _ := strings.Cut(queue.HelpPath(string(why)), "#")
			if !strings.Contains(text, `<h3 id="`+heading+`">`) {
				t.Errorf("there is no section for %s", why)
			}
		}
	}
}

func TestDocumentsAreReadWithoutADatabaseAndByStrangers(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.broken = errors.New("away")
	if got := get(t, documented(t, w), "/docs/"); got.Code != http.StatusOK || !strings.Contains(got.Header().Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%d %v", got.Code, got.Header())
	}
	for _, path := range []string{"/docs/nothing", "/docs/../web.go", "/docs/images/../docs.go", "/docs/docs.go", "/docs/images/none.svg", "/docs/%00.svg"} {
		if got := get(t, documented(t, newWorld()), path); got.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, got.Code)
		}
	}
}

// What Markdown allows and our pages do not want comes out as text.
func TestMarkdownBecomesAPageOfOurs(t *testing.T) {
	t.Parallel()
	h, err := New(Config{Store: newWorld(), Docs: fstest.MapFS{
		"README.md": {Data: []byte("# All `of` it\n\n[one](one.md), [two](two.md#b_c)\n")},
		"one.md":    {Data: []byte("# One\n\n## B_C, and `D`!\n\n## B_C, and `D`!\n\n[code](../deploy/x.sh) [index](README.md) [here](#b_c-and-d-1) [bad](javascript:alert(1))\n\n<script>alert(1)</script>\n\n| a | b |\n|---|---|\n| `x` | y |\n")},
		"two.md":    {Data: []byte("# Two\n")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	got := string(h.documents.byName["one"].Body)
	for _, want := range []string{`<h2 id="b_c-and-d">`, `<h2 id="b_c-and-d-1">`, `<p>code <a href="/docs/">index</a> <a href="#b_c-and-d-1">here</a>`, "<td><code>x</code></td>"} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %s:\n%s", want, got)
		}
	}
	if strings.Contains(got, "script") {
		t.Errorf("a script gets through:\n%s", got)
	}
	if first := h.documents.order[0]; first.Title != "All of it" || h.documents.order[2].Name != "two" || !strings.Contains(string(first.Body), `href="/docs/two#b_c"`) {
		t.Errorf("%+v", first)
	}
	if _, err := New(Config{Store: newWorld(), Docs: fstest.MapFS{"README.md": {Data: []byte("no heading")}}}); err == nil {
		t.Error("a document without a heading is taken")
	}
}

// TestTheSettingsOfQueuesAreDocumented: the part of docs/settings.md about a
// queue is what its page says. "-rewrite" writes it anew.
func TestTheSettingsOfQueuesAreDocumented(t *testing.T) {
	t.Parallel()
	fresh := &queue.Queue{Settings: queue.DefaultSettings()}
	var b strings.Builder
	for _, group := range settingGroups {
		fmt.Fprintf(&b, "### %s\n\n| setting | values | default | what it does |\n|---|---|---|---|\n", group.Title)
		for _, d := range group.Defs {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s. %s |\n", d.Name, valuesOf(d), defaultOf(d, fresh), d.Label, d.Help)
		}
		b.WriteString("\n")
	}
	docstest.Region(t, "../docs/settings.md", "queue settings", strings.TrimSuffix(b.String(), "\n"), *rewrite)
}

// valuesOf says what a setting takes.
func valuesOf(d settingDef) string {
	switch d.Kind {
	case "number":
		return fmt.Sprintf("%d to %d", d.Least, int64(queue.MaxNumber))
	case "switch":
		return "`true` `false`"
	case "choice":
		var values []string
		for _, c := range d.Choices {
			values = append(values, "`"+c.Value+"`")
		}
		return strings.Join(values, " ")
	case "lines":
		return "names"
	default:
		return "text"
	}
}

// defaultOf says what a new queue has.
func defaultOf(d settingDef, fresh *queue.Queue) string {
	if value := d.read(fresh); value != "" {
		return "`" + value + "`"
	}
	return "none"
}
