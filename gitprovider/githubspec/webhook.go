package githubspec

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var (
	//go:embed testdata/events.json
	eventsJSON []byte
	//go:embed testdata/schemas.json
	schemasJSON []byte
)

// eventName is the name of an event's schema in both files.
func eventName(event, action string) string {
	if action == "" {
		return "event:" + event
	}
	return "event:" + event + ":" + action
}

// loadEvents reads GitHub's own schemas of webhooks once.
var loadEvents = sync.OnceValue(func() openapi3.Schemas {
	doc, err := openapi3.NewLoader().LoadFromData(eventsJSON)
	if err != nil {
		panic("githubspec: testdata/events.json: " + err.Error())
	}
	return doc.Components.Schemas
})

// community compiles the community's schemas of webhooks, each once.
type community struct {
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	known    map[string]bool
}

const schemasURL = "https://schemas.invalid/webhooks.json"

var loadSchemas = sync.OnceValue(func() *community {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemasJSON))
	if err != nil {
		panic("githubspec: testdata/schemas.json: " + err.Error())
	}
	c := &community{compiler: jsonschema.NewCompiler(), known: map[string]bool{}}
	c.compiler.DefaultDraft(jsonschema.Draft7)
	c.compiler.AssertFormat()
	// GitHub's templates, {/sha} and {?page}, are of a level that the
	// library does not know.
	c.compiler.RegisterFormat(&jsonschema.Format{Name: "uri-template", Validate: func(any) error { return nil }})
	if err := c.compiler.AddResource(schemasURL, doc); err != nil {
		panic("githubspec: testdata/schemas.json: " + err.Error())
	}
	definitions, _ := doc.(map[string]any)["definitions"].(map[string]any)
	for name := range definitions {
		c.known[name] = true
	}
	return c
})

// Webhook judges a payload by GitHub's own schemas and by the community's.
// An event or an action that neither has is an error.
func Webhook(event string, payload []byte) error {
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.UseNumber() // an id does not fit into a float
	var body map[string]any
	if err := dec.Decode(&body); err != nil {
		return fmt.Errorf("webhook %s is not a JSON object: %w", event, err)
	}
	action, _ := body["action"].(string)
	objects(body, withoutNewEvent)
	body, _ = present(body).(map[string]any)
	own := loadEvents()[eventName(event, action)]
	if own == nil {
		return fmt.Errorf("webhook %s %s is not in testdata/events.json; if GitHub sends it, add it with \"make github-spec\"", event, action)
	}
	problems := []error{own.Value.VisitJSON(body, openapi3.MultiErrors(), openapi3.SetSchemaErrorMessageCustomizer(briefly))}
	c := loadSchemas()
	if name := eventName(event, action); c.known[name] {
		objects(body, withoutNewFields)
		problems = append(problems, c.validate(name, body))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("webhook %s %s is not as GitHub describes it: %w", event, action, err)
	}
	return nil
}

// GitHub sends what the schemas, which are a little older, do not know: the
// event repository_ruleset in lists of events (neither), the fields of
// newFields and the conclusion "skipped" of a suite (the community's).
var newFields = []string{"client_id", "lock_allows_fork_sync", "lock_branch_enforcement_level", "user_view_type", "verified_at"}

func withoutNewEvent(m map[string]any) {
	if names, ok := m["events"].([]any); ok {
		m["events"] = slices.DeleteFunc(names, func(name any) bool { return name == "repository_ruleset" })
	}
}

func withoutNewFields(m map[string]any) {
	for _, name := range newFields {
		delete(m, name)
	}
	if suite, ok := m["check_suite"].(map[string]any); ok && suite["conclusion"] == "skipped" {
		suite["conclusion"] = "neutral"
	}
	if from, ok := m["from"].(map[string]any); ok {
		delete(from, "organization") // of a repository that was transferred
	}
}

// objects calls do for every object of a value.
func objects(v any, do func(map[string]any)) {
	switch v := v.(type) {
	case []any:
		for _, part := range v {
			objects(part, do)
		}
	case map[string]any:
		do(v)
		for _, part := range v {
			objects(part, do)
		}
	}
}

func (c *community) validate(name string, body any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	schema, err := c.compiler.Compile(schemasURL + "#/definitions/" + name)
	if err != nil {
		return err
	}
	return schema.Validate(body)
}
