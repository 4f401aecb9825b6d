package webhook

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-github/v60/github"

	"signalbox/queue"
)

// GitHub's published example payloads (npm @octokit/webhooks-examples), those
// of the events that we use, stand in testdata/published.json without most of
// their links (see published.NOTICE); what they mean in published.txt.
//
//	go test ./webhook -rewrite                     writes published.txt anew
//	go test ./webhook -rewrite -published DIR      and published.json before
//
// DIR holds the unpacked package in webhooks-examples. With -published and
// without -rewrite every example of every event is tried.
//
// "make github-spec" fetches the package and does both.
var published = flag.String("published", "", "folder of the unpacked npm packages")

// examples are payloads by event.
type examples map[string][]json.RawMessage

func keptExamples(t testing.TB) examples {
	t.Helper()
	text, err := os.ReadFile("testdata/published.json")
	if err != nil {
		t.Fatal(err)
	}
	var all examples
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPublishedExamplesMeanWhatTheGoldenFileSays(t *testing.T) {
	t.Parallel()
	if *published != "" && *rewrite {
		t.Skip("the examples are being written")
	}
	all := keptExamples(t)
	var got strings.Builder
	for _, event := range sortedKeys(all) {
		for i, payload := range all[event] {
			name := fmt.Sprintf("%s.%d", event, i)
			var head struct{ Action string }
			json.Unmarshal(payload, &head)
			if head.Action != "" {
				name += "." + head.Action
			}
			parsed, err := parse(event, payload)
			if err != nil {
				describe(t, &got, name+" (does not decode)", doubt(event, payload))
				continue
			}
			describe(t, &got, name, testTranslator.translate(parsed, testNow))
		}
	}
	golden(t, "published.txt", got.String())
}

// Every row of the table of events has an example that gives a fact, or a
// payload of our own where GitHub publishes none.
func TestEveryEventThatWeUseHasAnExampleThatSaysSomething(t *testing.T) {
	t.Parallel()
	said := map[string]bool{}
	say := func(event string, payload []byte) {
		parsed, err := parse(event, payload)
		said[event] = said[event] || err == nil && !testTranslator.translate(parsed, testNow).empty()
	}
	for event, list := range keptExamples(t) {
		for _, payload := range list {
			say(event, payload)
		}
	}
	for name, payload := range payloads(t) {
		say(eventOf(name), payload)
	}
	for _, event := range append(github.MessageTypes(), "repository_ruleset") {
		if used(event) != said[event] {
			t.Errorf("%s: used %v, an example says something %v", event, used(event), said[event])
		}
	}
}

func TestEveryPublishedExampleIsTaken(t *testing.T) {
	t.Parallel()
	if *published == "" {
		t.Skip("needs -published; see \"make github-spec\"")
	}
	all := publishedExamples(t)
	n := 0
	for event, list := range all {
		for i, payload := range list {
			n++
			store := &memory{}
			rc, events := receiver(t, store)
			answer := httptest.NewRecorder()
			rc.ServeHTTP(answer, deliver(event, fmt.Sprintf("%s-%d", event, i), string(payload)))
			if answer.Code != 202 || len(events()) != 1 {
				t.Errorf("%s.%d: %d %s, %v", event, i, answer.Code, answer.Body, events())
			}
			if !used(event) && len(store.facts)+len(store.connections) > 0 {
				t.Errorf("%s.%d says %v, and is an event that we do not use", event, i, store.facts)
			}
		}
	}
	if n < 300 {
		t.Errorf("there are only %d examples", n)
	}
	compareExamples(t, all)
}

// compareExamples holds testdata/published.json to the package: it is what
// trimmed makes of the examples, and it means what they mean.
func compareExamples(t *testing.T, all examples) {
	t.Helper()
	var kept bytes.Buffer
	kept.WriteString("{")
	for i, event := range slices.DeleteFunc(sortedKeys(all), func(event string) bool { return !used(event) }) {
		if i > 0 {
			kept.WriteString(",")
		}
		fmt.Fprintf(&kept, "\n%q: [", event)
		for j, payload := range all[event] {
			short := trimmedExample(t, payload)
			if diff := cmp.Diff(meaning(event, payload), meaning(event, short)); diff != "" {
				t.Errorf("%s.%d means something else when trimmed (-whole +trimmed):\n%s", event, j, diff)
			}
			if j > 0 {
				kept.WriteString(",")
			}
			kept.WriteString("\n")
			kept.Write(short)
		}
		kept.WriteString("\n]")
	}
	kept.WriteString("\n}\n")
	path := filepath.Join("testdata", "published.json")
	if *rewrite {
		if err := os.WriteFile(path, kept.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, kept.Bytes()) {
		t.Errorf("%s is not what the published package says; run \"make github-spec\" (%v)", path, err)
	}
}

func meaning(event string, payload []byte) []queue.Fact {
	parsed, err := parse(event, payload)
	if err != nil {
		return doubt(event, payload).facts
	}
	return testTranslator.translate(parsed, testNow).facts
}

func publishedExamples(t *testing.T) examples {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(*published, "webhooks-examples/package/api.github.com/index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index []struct {
		Name     string            `json:"name"`
		Examples []json.RawMessage `json:"examples"`
	}
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	all := examples{}
	for _, e := range index {
		all[e.Name] = e.Examples
	}
	return all
}

// trimmedExample leaves out of a payload the links that nobody reads.
func trimmedExample(t *testing.T, payload []byte) []byte {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	var short bytes.Buffer
	enc := json.NewEncoder(&short)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(withoutLinks(v)); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSpace(short.Bytes())
}

func withoutLinks(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = withoutLinks(v[i])
		}
	case map[string]any:
		for name, part := range v {
			link := strings.HasSuffix(name, "_url") && name != "html_url" && name != "target_url" && name != "details_url"
			if link || name == "_links" || name == "node_id" || name == "gravatar_id" {
				delete(v, name)
				continue
			}
			v[name] = withoutLinks(part)
		}
	}
	return v
}
