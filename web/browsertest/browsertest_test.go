package browsertest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The checks see each fault that they are for, and none in a page without.

const good = `<!doctype html><html lang="en"><head><title>Good</title><link rel="icon" href="data:,"></head><body><main><h1>Good</h1>
<p>Text</p><label for="x">X</label> <input id="x"><a href="/">link</a><table><tr><th scope="col">A</th></tr><tr><td>1</td></tr></table></main></body></html>`

var bad = map[string]struct{ page, want string }{
	"language":    {strings.Replace(good, ` lang="en"`, "", 1), "language"},
	"title":       {strings.Replace(good, "<title>Good</title>", "", 1), "no title"},
	"headings":    {strings.Replace(good, "<p>", "<h3>Deep</h3><p>", 1), "skips a level"},
	"two mains":   {strings.Replace(good, "<p>", "<h1>Again</h1><p>", 1), "2 main headings"},
	"ids":         {strings.Replace(good, "<p>", `<p id="x">`, 1), "the id x is there 2 times"},
	"width":       {strings.Replace(good, "<p>", `<p style="width: 3000px">`, 1), "wide in a window"},
	"label":       {strings.Replace(good, ` for="x"`, "", 1), "it has no name: <input"},
	"button":      {strings.Replace(good, "<p>", "<button></button><p>", 1), "it has no name: <button"},
	"picture":     {strings.Replace(good, "<p>", `<img src="data:,"><p>`, 1), "a picture has no text"},
	"table":       {strings.Replace(good, ` scope="col"`, "", 1), "a table has no headings"},
	"reference":   {strings.Replace(good, "<p>", `<p aria-labelledby="nobody">`, 1), "nobody, which is not there"},
	"contrast":    {strings.Replace(good, "<p>", `<p style="color: #999">`, 1), "a contrast of 2.85"},
	"see-through": {strings.Replace(good, "<p>", `<p style="color: rgba(0, 0, 0, 0.4)">`, 1), "a contrast of"},
	"focus":       {strings.Replace(good, `<a href="/">`, `<a href="/" style="outline: none">`, 1), "its focus cannot be seen"},
}

func TestTheChecksSeeWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	b := Open(t)
	serve := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(serve))
	}))
	defer server.Close()
	tab := b.Tab(t, Look{Width: 800, Height: 600})
	look := func(page string) string {
		serve = page
		tab.Visit(server.URL)
		return strings.Join(tab.Faults(), "\n")
	}
	if faults := look(good); faults != "" {
		t.Errorf("a good page: %s", faults)
	}
	for name, tt := range bad {
		if faults := look(tt.page); !strings.Contains(faults, tt.want) {
			t.Errorf("%s: found %q, want %q", name, faults, tt.want)
		}
	}
	if problems := tab.Problems(); len(problems) != 0 {
		t.Errorf("pages without a script complained: %q", problems)
	}
	look(strings.Replace(good, "<p>", `<script>console.error("ouch"); nowhere()</script><p>`, 1))
	if problems := strings.Join(tab.Problems(), "\n"); !strings.Contains(problems, "ouch") || !strings.Contains(problems, "nowhere is not defined") {
		t.Errorf("what the page complained of: %q", problems)
	}
}
