package rest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The scripts in testdata/*.txt are conversations with the API: a request,
// ----, and all of the answer that matters. A request is
//
//	POST /v1/getQueue admin        method, path, token, headers as Name:value
//	{@main}                        the body; @main is repo and targetBranch,
//	                               $run12 the newest run that tests #12,
//	                               $cursor the newest page token
//	                               and /$address in the path, where the newest
//	                               bundle goes; $public in a header, the id
//	                               under which everybody may upload
//
// Runs are called RUN-1, RUN-2 … in answers, in the order in which they began.
// show=a,b among the headers shortens the answer to these members of it, and
// brief=a,b a list of pull requests to these members of each, and lines=a
// text to its lines that contain a.
//
// Between requests stand commands that move the world:
//
//	pull 12 title="Add a" author=ann base=main state=open mergeable=mergeable
//	                               what the host says of a pull request
//	run 900 pull=12 live=yes       a run of its CI: in progress, for a fork, or not
//	installed acme/app by=acme     where the App is installed
//	host down|up · store down|gone|up · decisions off|on
//	work                           perform what the queue asked for: reads,
//	                               refreshes, builds, but no landing
//	check 12 build success kind=status suite=3
//	                               CI reports on the run of a pull request
//	land                           perform the landing that the queue asked for
//	see 12 state=closed            tell the queue what the host says of it
//	advance 5m
//
// Regenerate the answers with -rewrite, and read the diff.
var rewrite = flag.Bool("rewrite", false, "rewrite the answers in testdata/*.txt")

func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name+" on Postgres", func(t *testing.T) {
			t.Parallel()
			checkScript(t, file, newPostgresWorld(t), *rewrite)
		})
		// The other tests of this package use the store in memory; this holds
		// it to what the real one does.
		t.Run(name+" in memory", func(t *testing.T) {
			t.Parallel()
			checkScript(t, file, newWorld(t, nil), false)
		})
	}
}

func checkScript(t *testing.T, file string, w *world, rewrite bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := runScript(w, string(text))
	if rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := firstDifference(string(text), got); diff != "" {
		t.Errorf("%s: %s", file, diff)
	}
}

// firstDifference shows where two texts part, with a few lines around.
func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(a), len(b)) {
		if i < len(a) && i < len(b) && a[i] == b[i] {
			continue
		}
		around := func(lines []string) string {
			return strings.Join(lines[min(len(lines), max(0, i-4)):min(len(lines), i+8)], "\n")
		}
		return fmt.Sprintf("line %d differs.\nwant:\n%s\n\ngot:\n%s", i+1, around(a), around(b))
	}
	return ""
}

// runScript performs a script and returns it with the answers it got.
func runScript(w *world, text string) string {
	var out strings.Builder
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		fmt.Fprintln(&out, line)
		word, _, _ := strings.Cut(line, " ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case word == strings.ToUpper(word) && strings.Contains(line, " /"):
			var body []string
			for i++; i < len(lines) && lines[i] != "----"; i++ {
				body = append(body, lines[i])
				fmt.Fprintln(&out, lines[i])
			}
			for i++; i < len(lines) && lines[i] != ""; i++ { // the old answer
			}
			fmt.Fprintf(&out, "----\n%s\n", w.request(line, strings.Join(body, "\n")))
		default:
			w.command(line)
		}
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

const mainQueue = `"repo":{"host":"github.com","owner":"acme","name":"app"},"targetBranch":"main"`

// request sends a request and renders the answer.
func (w *world) request(line, body string) string {
	words := strings.Fields(line)
	body = runOf.ReplaceAllStringFunc(strings.ReplaceAll(body, "@main", mainQueue), w.runOf)
	body = strings.ReplaceAll(body, "$cursor", w.cursor)
	body = strings.ReplaceAll(body, "@101", "["+strings.Repeat(`{"number":1},`, 100)+`{"number":2}]`)
	r := httptest.NewRequest(words[0], strings.ReplaceAll(words[1], "/$address", w.address), strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if len(words) > 2 && words[2] != "-" {
		r.Header.Set("x-api-token", words[2])
	}
	show, list, contain := "", "", ""
	for _, header := range words[min(3, len(words)):] {
		if strings.HasPrefix(header, "show=") {
			show = header[len("show="):]
			continue
		}
		if strings.HasPrefix(header, "brief=") {
			list = header[len("brief="):]
			continue
		}
		if strings.HasPrefix(header, "lines=") {
			contain = header[len("lines="):]
			continue
		}
		name, value, _ := strings.Cut(header, ":")
		value = strings.ReplaceAll(value, "$public", w.public)
		if r.Header.Set(name, strings.ReplaceAll(value, "_", " ")); value == "" {
			r.Header.Del(name)
		}
	}
	got := w.send(r)
	w.keepCursor(got)
	if show != "" && got.Code == http.StatusOK {
		return w.brief(got, strings.Split(show, ","))
	}
	if list != "" && got.Code == http.StatusOK {
		return w.briefList(got, strings.Split(list, ","))
	}
	return w.render(got, contain)
}

// keepCursor remembers the page token of an answer. It is random on Postgres,
// so answers show it as CURSOR.
func (w *world) keepCursor(got *httptest.ResponseRecorder) {
	var page struct {
		NextCursor string `json:"nextCursor"`
		Page       struct {
			NextPageToken string `json:"next_page_token"`
		} `json:"page"`
		ID     string `json:"id"`
		URL    string `json:"url"`
		Public string `json:"public_repo_id"`
	}
	if json.Unmarshal(got.Body.Bytes(), &page) != nil {
		return
	}
	if page.URL != "" {
		w.address, w.bundle = strings.TrimPrefix(page.URL, "https://signalbox.example"), page.ID
	}
	w.public = cmp.Or(page.Public, w.public)
	if next := cmp.Or(page.NextCursor, page.Page.NextPageToken); next != "" {
		w.cursor = next
	}
}

// brief renders only some members of an answer, on one line.
func (w *world) brief(got *httptest.ResponseRecorder, names []string) string {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(got.Body.Bytes(), &all); err != nil {
		w.t.Errorf("answer is no JSON object: %v", err)
	}
	out := fmt.Sprintln(got.Code)
	for _, name := range names {
		value, ok := all[name]
		if !ok {
			value = []byte("(not there)")
		}
		out += fmt.Sprintf("%s %s\n", name, value)
	}
	return w.nameRuns(out)
}

// briefList renders some members of each pull request, one on a line, and
// what else the answer has.
func (w *world) briefList(got *httptest.ResponseRecorder, names []string) string {
	var page struct {
		PullRequests []map[string]json.RawMessage `json:"pullRequests"`
		Enqueued     []map[string]json.RawMessage `json:"enqueuedPullRequests"`
		NextCursor   string                       `json:"nextCursor"`
	}
	if err := json.Unmarshal(got.Body.Bytes(), &page); err != nil {
		w.t.Errorf("answer is no list: %v", err)
	}
	out := fmt.Sprintln(got.Code)
	for _, pr := range append(page.PullRequests, page.Enqueued...) {
		for i, name := range names {
			out += strings.Repeat(" ", min(i, 1)) + string(pr[name])
		}
		out += "\n"
	}
	if page.NextCursor != "" {
		out += "nextCursor " + page.NextCursor + "\n"
	}
	return w.nameRuns(out)
}

func (w *world) render(got *httptest.ResponseRecorder, contain string) string {
	var out bytes.Buffer
	fmt.Fprintln(&out, got.Code)
	for _, name := range []string{"Allow", "Retry-After", "WWW-Authenticate", "Connection"} {
		if value := got.Header().Get(name); value != "" {
			fmt.Fprintf(&out, "%s: %s\n", name, value)
		}
	}
	body := bytes.TrimSpace(got.Body.Bytes())
	if kind := got.Header().Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
		fmt.Fprintf(&out, "Content-Type: %s\n", kind)
		for line := range strings.Lines(string(body)) {
			if strings.Contains(line, contain) {
				out.WriteString(line)
			}
		}
		return strings.TrimRight(w.nameRuns(out.String()), "\n") + "\n"
	}
	if len(body) > 200 || got.Code == http.StatusOK && len(body) > 2 {
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, body, "", "  "); err != nil {
			w.t.Errorf("answer is not JSON: %v: %s", err, body)
		}
		body = pretty.Bytes()
	}
	out.Write(body)
	shown := pageTokens.ReplaceAll(out.Bytes(), []byte(`$1"TOKEN"`)) // random on Postgres
	shown = webhookIDs.ReplaceAll(shown, []byte(`$1"msg_EVENT"`))
	out.Reset()
	out.Write(shown)
	id := got.Header().Get("X-Request-Id")
	return w.nameRuns(strings.ReplaceAll(out.String(), id, "REQUEST")) + "\n"
}

var pageTokens = regexp.MustCompile(`("(?:next|prev|last)_page_token": )"[^"]+"`)

var webhookIDs = regexp.MustCompile(`("webhookId": )"msg_[0-9a-f-]{36}"`)

var pair = regexp.MustCompile(`(\w+)=("[^"]*"|\S+)`)

func options(line string) map[string]string {
	out := map[string]string{}
	for _, m := range pair.FindAllStringSubmatch(line, -1) {
		out[m[1]] = strings.Trim(m[2], `"`)
	}
	return out
}
