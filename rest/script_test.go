package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"signalbox/account"
	"signalbox/queue"
)

// The scripts in testdata/*.txt are conversations with the API: a request,
// ----, and all of the answer that matters. A request is
//
//	POST /v1/getQueue admin        method, path, token, headers as Name:value
//	{@main}                        the body; @main is repo and targetBranch,
//	                               $run12 the run that tests #12
//
// show=a,b among the headers shortens the answer to these members of it.
//
// Between requests stand commands that move the world:
//
//	pull 12 title="Add a" author=ann base=main state=open mergeable=mergeable
//	                               what the host says of a pull request
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
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runScript(t, string(text))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := firstDifference(string(text), got); diff != "" {
				t.Errorf("%s: %s", file, diff)
			}
		})
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

// world is everything that a script talks to.
type world struct {
	t     *testing.T
	api   *API
	store *memory
	host  *fakeHost
	clock time.Time
	log   bytes.Buffer
}

const testHost = "github.com"

func newWorld(t *testing.T, adjust func(*Config)) *world {
	w := &world{t: t, clock: time.Date(2026, 11, 27, 20, 7, 41, 331_999_000, time.UTC)}
	now := func() time.Time { return w.clock }
	acme := account.Organization{ID: 1, Slug: "acme"}
	globex := account.Organization{ID: 2, Slug: "globex"}
	w.store = &memory{tokens: map[[32]byte]account.Token{}, now: now}
	for i, token := range []account.Token{
		{Org: acme, Name: "read", Scope: account.Read},
		{Org: acme, Name: "submit", Scope: account.Submit},
		{Org: acme, Name: "admin", Scope: account.Admin},
		{Org: globex, Name: "other", Scope: account.Admin},
		{Org: acme, Name: "expired", Scope: account.Admin, ExpiresAt: w.clock},
		{Org: acme, Name: "revoked", Scope: account.Admin, RevokedAt: w.clock.Add(-time.Hour)},
		{Org: acme, Name: "odd", Scope: "odd"},
	} {
		token.ID = int64(i + 1)
		w.store.tokens[account.Hash(token.Name)] = token
	}
	w.host = &fakeHost{pulls: map[int64]queue.PullRequest{}, mergeable: map[int64]queue.Mergeability{}, installed: map[string]string{"acme/app": "acme"}}
	ids := 0
	cfg := Config{
		Store: w.store, Host: w.host, IsGone: func(err error) bool { return errors.Is(err, errGone) },
		HostName: testHost, Now: now, Log: slog.New(slog.NewTextHandler(&w.log, nil)), Timeout: 50 * time.Millisecond,
		NewID: func() string { ids++; return fmt.Sprintf("11111111-1111-4111-8111-%012d", ids) },
	}
	if adjust != nil {
		adjust(&cfg)
	}
	w.api = New(cfg)
	return w
}

// runScript performs a script and returns it with the answers it got.
func runScript(t *testing.T, text string) string {
	w := newWorld(t, nil)
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
	r := httptest.NewRequest(words[0], words[1], strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if len(words) > 2 && words[2] != "-" {
		r.Header.Set("x-api-token", words[2])
	}
	show := ""
	for _, header := range words[min(3, len(words)):] {
		if strings.HasPrefix(header, "show=") {
			show = header[len("show="):]
			continue
		}
		name, value, _ := strings.Cut(header, ":")
		if r.Header.Set(name, strings.ReplaceAll(value, "_", " ")); value == "" {
			r.Header.Del(name)
		}
	}
	got := w.send(r)
	if show != "" && got.Code == http.StatusOK {
		return w.brief(got, strings.Split(show, ","))
	}
	return w.render(got)
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
	return out
}

func (w *world) send(r *http.Request) *httptest.ResponseRecorder {
	got := httptest.NewRecorder()
	w.api.ServeHTTP(got, r)
	if got.Header().Get("X-Request-Id") == "" {
		w.t.Errorf("%s: no X-Request-Id", r.URL.Path)
	}
	if kind := got.Header().Get("Content-Type"); kind != "application/json; charset=utf-8" {
		w.t.Errorf("%s: Content-Type %q", r.URL.Path, kind)
	}
	return got
}

func (w *world) render(got *httptest.ResponseRecorder) string {
	var out bytes.Buffer
	fmt.Fprintln(&out, got.Code)
	for _, name := range []string{"Allow", "Retry-After", "WWW-Authenticate", "Connection"} {
		if value := got.Header().Get(name); value != "" {
			fmt.Fprintf(&out, "%s: %s\n", name, value)
		}
	}
	body := bytes.TrimSpace(got.Body.Bytes())
	if len(body) > 200 || got.Code == http.StatusOK && len(body) > 2 {
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, body, "", "  "); err != nil {
			w.t.Errorf("answer is not JSON: %v: %s", err, body)
		}
		body = pretty.Bytes()
	}
	out.Write(body)
	id := got.Header().Get("X-Request-Id")
	return strings.ReplaceAll(out.String(), id, "REQUEST") + "\n"
}

var runOf = regexp.MustCompile(`\$run(\d+)`)

// runOf is the id of the newest run that tests a pull request.
func (w *world) runOf(name string) string {
	number, _ := strconv.ParseInt(name[len("$run"):], 10, 64)
	var newest *queue.Run
	for _, r := range w.store.queues[0].Runs {
		own := len(r.Chain) - len(r.Members)
		if slices.ContainsFunc(r.Chain[own:], func(s queue.Step) bool { return s.PR == number }) &&
			(newest == nil || r.AskedAt.After(newest.AskedAt)) {
			newest = r
		}
	}
	if newest == nil {
		w.t.Fatalf("%s: there is none", name)
	}
	return string(newest.ID)
}

var pair = regexp.MustCompile(`(\w+)=("[^"]*"|\S+)`)

func options(line string) map[string]string {
	out := map[string]string{}
	for _, m := range pair.FindAllStringSubmatch(line, -1) {
		out[m[1]] = strings.Trim(m[2], `"`)
	}
	return out
}

// command moves the world.
func (w *world) command(line string) {
	words := strings.Fields(line)
	args := append(words[1:], "", "", "")
	number, _ := strconv.ParseInt(args[0], 10, 64)
	given := options(line)
	m := w.store
	m.mu.Lock()
	defer m.mu.Unlock()
	switch words[0] {
	case "pull", "see":
		w.pull(number, given)
		if words[0] == "see" {
			m.decide(m.queues[0], queue.PullRequestSeen{PullRequest: w.host.pulls[number], Read: true})
		}
	case "installed":
		w.host.installed[args[0]] = given["by"]
	case "host":
		w.host.down = args[0] == "down"
	case "store":
		m.broken = map[string]error{
			"down": errors.New("pq: syntax error at or near \"secret\""),
			"gone": fmt.Errorf("dial unix /run/secret.sock: %w", queue.ErrUnavailable),
		}[args[0]]
	case "decisions":
		m.stopped = args[0] == "off"
	case "work":
		w.work()
	case "land":
		w.land()
	case "check":
		w.check(number, args[1], args[2], given)
	case "advance":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			w.t.Fatal(err)
		}
		w.clock = w.clock.Add(d)
	default:
		w.t.Fatalf("unknown command %q", line)
	}
}

// pull sets what the host says of a pull request.
func (w *world) pull(number int64, given map[string]string) {
	pr, known := w.host.pulls[number]
	if !known {
		pr = queue.PullRequest{
			Number: number, Title: fmt.Sprintf("Change %d", number), URL: fmt.Sprintf("https://github.com/acme/app/pull/%d", number),
			Author: queue.Actor{Login: "ann", ID: 1}, Head: fmt.Sprintf("%040d", number), Base: "main", Open: true,
		}
		w.host.mergeable[number] = queue.Mergeable
	}
	pr.UpdatedAt = w.clock
	for name, value := range given {
		switch name {
		case "title":
			pr.Title = value
		case "author":
			pr.Author.Login = value
		case "base":
			pr.Base = value
		case "head":
			pr.Head = value
		case "state":
			pr.Open, pr.Draft, pr.Merged = value == "open" || value == "draft", value == "draft", value == "merged"
		case "mergeable":
			w.host.mergeable[number] = queue.Mergeability(value)
		default:
			w.t.Fatalf("pull: unknown option %s", name)
		}
	}
	w.host.pulls[number] = pr
}

// work performs actions until only landings are left.
func (w *world) work() {
	for _, q := range w.store.queues {
		for {
			i := slices.IndexFunc(q.actions, func(a queue.Action) bool { return a.Kind() != "land" })
			if i < 0 {
				break
			}
			action := q.actions[i]
			q.actions = slices.Delete(q.actions, i, i+1)
			w.perform(q, action)
		}
	}
}

func (w *world) perform(q *memoryQueue, action queue.Action) {
	switch a := action.(type) {
	case queue.ReadTarget:
		w.store.decide(q, queue.TargetRead{Commit: strings.Repeat("b", 40), Tree: strings.Repeat("c", 40), Version: a.Version})
	case queue.RefreshPR:
		pr := w.host.pulls[a.PR]
		w.store.decide(q, queue.PullRequestSeen{PullRequest: pr, Read: true})
		w.store.decide(q, queue.MergeabilitySeen{PR: a.PR, Head: pr.Head, Value: w.host.mergeable[a.PR], Why: "A review is missing."})
	case queue.BuildRuns:
		for _, r := range a.Runs {
			chain := make([]queue.Step, len(r.Chain))
			for i, step := range r.Chain {
				chain[i] = step.Step
				chain[i].Commit = fmt.Sprintf("%040x", 0xabc000+step.PR)
				chain[i].Tree = fmt.Sprintf("%040x", 0xdef000+step.PR)
			}
			required := []queue.Required{{Name: "build"}, {Name: "lint", AppID: 1}, {Name: "lint", AppID: 2}}
			source := queue.FromProtection
			if len(a.RequiredStatuses) > 0 {
				required, source = nil, queue.FromQueue
				for _, name := range a.RequiredStatuses {
					required = append(required, queue.Required{Name: name})
				}
			}
			w.store.decide(q, queue.RunBuilt{
				Run: r.Run, Base: queue.Base{Commit: strings.Repeat("b", 40), Tree: strings.Repeat("c", 40)},
				Chain: chain, Required: required, RequiredSource: source, At: w.clock,
			})
		}
	}
}

// land performs the landing that the first queue asked for.
func (w *world) land() {
	q := w.store.queues[0]
	i := slices.IndexFunc(q.actions, func(a queue.Action) bool { return a.Kind() == "land" })
	if i < 0 {
		w.t.Fatal("land: the queue asked for no landing")
	}
	a := q.actions[i].(queue.Land)
	q.actions = slices.Delete(q.actions, i, i+1)
	ended := queue.LandingEnded{Landing: a.Landing, At: w.clock}
	for _, s := range a.Steps {
		ended.Landed = append(ended.Landed, queue.LandedStep{Entry: s.Entry, Submission: s.Submission, Commit: s.Commit, Tree: s.Tree})
		ended.Commit, ended.Tree = s.Commit, s.Tree
	}
	w.store.decide(q, ended)
	w.work()
}

// check reports on the run that tests a pull request.
func (w *world) check(pr int64, name, result string, given map[string]string) {
	q := w.store.queues[0]
	e := q.ByPR(pr)
	g := q.Groups[e.Group]
	if g == nil || q.Runs[g.Run] == nil {
		w.t.Fatalf("check: #%d has no run", pr)
	}
	w.store.facts++
	report := queue.Report{
		Kind: queue.CheckRun, Name: name, ID: w.store.facts, Status: "completed", Result: result,
		URL: "https://ci.example/" + name, At: w.clock,
	}
	if status := given["status"]; status != "" {
		report.Status, report.Result = status, ""
	}
	if given["kind"] == "status" {
		report.Kind, report.Status = queue.CommitStatus, ""
	}
	report.Suite, _ = strconv.ParseInt(given["suite"], 10, 64)
	report.AppID, _ = strconv.ParseInt(given["app"], 10, 64)
	w.store.decide(q, queue.CheckReported{Commit: q.Runs[g.Run].Commit, Report: report})
	w.work()
}

// post sends a JSON body with a token and returns status, code and message.
func (w *world) post(path, token, body string) (int, string, string) {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(strings.ReplaceAll(body, "@main", mainQueue)))
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("X-Api-Token", token)
	}
	got := w.send(r)
	var answer errorBody
	if err := json.Unmarshal(got.Body.Bytes(), &answer); err != nil {
		w.t.Errorf("%s: %v: %s", path, err, got.Body)
	}
	return got.Code, answer.Error.Code, answer.Error.Message
}
