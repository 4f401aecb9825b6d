package githubspec

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox/gitprovider/githubsim"
)

// The files of testdata are cut from the published ones by these tests:
//
//	go test ./gitprovider/githubspec -published DIR -rewrite
//
// DIR holds the unpacked npm packages, openapi, openapi-webhooks and
// webhooks-schemas. Without -rewrite the tests compare, and without -published
// they are skipped.
var (
	published = flag.String("published", "", "folder of the unpacked npm packages")
	rewrite   = flag.Bool("rewrite", false, "write the files of testdata anew")
)

// events are what the simulator sends: by event, its actions.
var events = map[string][]string{
	"branch_protection_rule":     {"created", "edited", "deleted"},
	"check_run":                  {"created", "completed"},
	"check_suite":                {"requested", "completed"},
	"installation":               {"created", "deleted", "suspend", "unsuspend"},
	"installation_repositories":  {"added", "removed"},
	"issue_comment":              {"created", "edited", "deleted"},
	"ping":                       {""},
	"pull_request":               {"opened", "reopened", "edited", "synchronize", "closed", "converted_to_draft", "ready_for_review", "labeled", "unlabeled"},
	"pull_request_review":        {"submitted", "dismissed", "edited"},
	"pull_request_review_thread": {"resolved", "unresolved"},
	"push":                       {""},
	"repository":                 {"renamed", "transferred", "deleted", "edited"},
	"repository_ruleset":         {"created", "edited", "deleted"},
	"status":                     {""},
	"workflow_run":               {"requested", "in_progress", "completed"},
}

func TestTheFilesAreWhatIsPublished(t *testing.T) {
	t.Parallel()
	if *published == "" {
		t.Skip("needs -published; see \"make github-spec\"")
	}
	compare(t, "api.json", trimAPI(t, read(t, "openapi/package/generated/api.github.com.json")))
	compare(t, "events.json", trimEvents(t, read(t, "openapi-webhooks/package/generated/api.github.com.json")))
	compare(t, "schemas.json", trimSchemas(read(t, "webhooks-schemas/package/schema.json")))
}

func read(t *testing.T, path string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(*published, path))
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var doc map[string]any
	if err := dec.Decode(&doc); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return doc
}

func compare(t *testing.T, name string, doc map[string]any) {
	t.Helper()
	path := filepath.Join("testdata", name)
	text := written(doc)
	if *rewrite {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(old, text) {
		t.Errorf("%s is not what the published packages say; run \"make github-spec\"", path)
	}
}

// written is a document with a line for each call and each schema, so that a
// change can be read.
func written(doc map[string]any) []byte {
	var b bytes.Buffer
	write(&b, doc, 3)
	b.WriteByte('\n')
	return b.Bytes()
}

func write(b *bytes.Buffer, v any, depth int) {
	m, ok := v.(map[string]any)
	if !ok || depth == 0 {
		enc := json.NewEncoder(b)
		enc.SetEscapeHTML(false)
		enc.Encode(v) // it was decoded from JSON
		b.Truncate(b.Len() - 1)
		return
	}
	b.WriteString("{")
	for i, key := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(b, "\n%q: ", key)
		write(b, m[key], depth-1)
	}
	b.WriteString("\n}")
}

// at digs into a document.
func at(v any, path ...string) map[string]any {
	m, _ := v.(map[string]any)
	for _, p := range path {
		m, _ = m[p].(map[string]any)
	}
	return m
}

// trimAPI keeps the calls of the simulator's route table.
func trimAPI(t *testing.T, doc map[string]any) map[string]any {
	t.Helper()
	shapes := map[string]string{}
	for template := range at(doc, "paths") {
		shapes[shape(template)] = template
	}
	paths := map[string]any{}
	for _, c := range githubsim.Calls() {
		method, path, _ := strings.Cut(c, " ")
		template := shapes[shape(path)]
		op := at(doc, "paths", template, strings.ToLower(method))
		if op == nil {
			t.Errorf("GitHub has no call %s", c)
			continue
		}
		item, _ := paths[template].(map[string]any)
		if item == nil {
			item = map[string]any{}
			if shared, ok := at(doc, "paths", template)["parameters"]; ok {
				item["parameters"] = cleaned(shared, false)
			}
			paths[template] = item
		}
		item[strings.ToLower(method)] = cleaned(op, false)
	}
	correct(t, paths)
	return withComponents(doc, map[string]any{"openapi": doc["openapi"], "info": info(doc), "paths": paths})
}

// correct mends a mistake of the description: it says that the account in the
// list of installations is a user and an enterprise at once.
func correct(t *testing.T, paths map[string]any) {
	t.Helper()
	account := at(paths, "/app/installations", "get", "responses", "200", "content", "application/json", "schema", "items", "properties", "account")
	if account["allOf"] == nil {
		t.Error("the description's mistake about the accounts of installations is gone; so can be this correction")
		return
	}
	account["anyOf"] = account["allOf"]
	delete(account, "allOf")
}

// shape is a path without the names of its parameters.
func shape(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if strings.HasPrefix(p, "{") && strings.Count(p, "{") == 1 { // {base}...{head} is an old form of {basehead}
			parts[i] = "{}"
		}
	}
	return strings.Join(parts, "/")
}

func info(doc map[string]any) map[string]any {
	return map[string]any{"title": at(doc, "info")["title"], "version": at(doc, "info")["version"]}
}

// trimEvents keeps the bodies of the events that the simulator sends.
func trimEvents(t *testing.T, doc map[string]any) map[string]any {
	t.Helper()
	schemas := map[string]any{}
	for event, actions := range events {
		for _, action := range actions {
			name := strings.Trim(strings.ReplaceAll(event, "_", "-")+"-"+strings.ReplaceAll(action, "_", "-"), "-")
			media := at(doc, "webhooks", name, "post", "requestBody", "content", "application/json")
			if media == nil {
				t.Errorf("GitHub has no event %s %s", event, action)
				continue
			}
			schemas[eventName(event, action)] = cleaned(media["schema"], false)
		}
	}
	kept := map[string]any{"openapi": "3.0.3", "info": info(doc), "paths": map[string]any{}}
	// They stand among the components, as they have no path.
	whole := withComponents(doc, map[string]any{"use": schemas})
	for name, schema := range schemas {
		whole["components"].(map[string]any)["schemas"].(map[string]any)[name] = schema
	}
	kept["components"] = whole["components"]
	return kept
}

// trimSchemas keeps the definitions of the events that the simulator sends.
func trimSchemas(doc map[string]any) map[string]any {
	use := map[string]any{}
	for event, actions := range events {
		for _, action := range actions {
			key := event + "$" + action
			if action == "" {
				key = event + "$event"
			}
			if d, ok := at(doc, "definitions")[key]; ok {
				use[eventName(event, action)] = cleaned(d, false)
			}
		}
	}
	kept := map[string]any{"$schema": doc["$schema"]}
	collect(doc, use, kept)
	defs := at(kept, "definitions")
	for name, d := range use {
		defs[name] = d
	}
	return kept
}

// withComponents adds everything that a document refers to.
func withComponents(doc, kept map[string]any) map[string]any {
	collect(doc, kept, kept)
	delete(kept, "use")
	return kept
}

// collect copies into kept what v refers to in doc, and what that refers to.
func collect(doc map[string]any, v any, kept map[string]any) {
	switch v := v.(type) {
	case []any:
		for _, part := range v {
			collect(doc, part, kept)
		}
	case map[string]any:
		for _, part := range v {
			collect(doc, part, kept)
		}
		ref, ok := v["$ref"].(string)
		if !ok {
			return
		}
		path := strings.Split(strings.TrimPrefix(ref, "#/"), "/")
		from, to := any(doc), kept
		for i, p := range path {
			m, _ := from.(map[string]any)
			from = m[p]
			if i == len(path)-1 {
				if to[p] == nil {
					to[p] = cleaned(from, false)
					collect(doc, to[p], kept)
				}
				return
			}
			if to[p] == nil {
				to[p] = map[string]any{}
			}
			to = to[p].(map[string]any)
		}
	}
}

// words are the keys that say something to people only.
var words = []string{"description", "example", "examples", "externalDocs", "operationId", "summary", "tags", "title", "tsType", "x-github", "deprecated"}

// cleaned is a copy without texts for people. The keys of a map of properties
// or of examples are names.
func cleaned(v any, names bool) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, part := range v {
			out[i] = cleaned(part, false)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for key, part := range v {
			if !names && slices.Contains(words, key) {
				continue
			}
			out[key] = cleaned(part, !names && (key == "properties" || key == "definitions" || key == "patternProperties"))
		}
		return out
	}
	return v
}
