package signalbox_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/goccy/go-yaml"

	"signalbox/account"
)

// manifest is what GitHub takes to make an App from.
type manifest struct {
	Name        string `json:"name"`
	URL         string `json:"url"`
	Description string `json:"description"`
	Public      *bool  `json:"public"`
	Hook        struct {
		URL    string `json:"url"`
		Active bool   `json:"active"`
	} `json:"hook_attributes"`
	Permissions map[string]string `json:"default_permissions"`
	Events      []string          `json:"default_events"`
}

// needed is the permission without which GitHub offers no event of that name.
var needed = map[string]string{
	"check_run":                  "checks",
	"check_suite":                "checks",
	"status":                     "statuses",
	"workflow_run":               "actions",
	"pull_request":               "pull_requests",
	"pull_request_review":        "pull_requests",
	"pull_request_review_thread": "pull_requests",
	"issue_comment":              "issues",
	"push":                       "contents",
	"repository":                 "metadata",
	"branch_protection_rule":     "administration",
	"repository_ruleset":         "administration",
	"member":                     "members",
}

// TestAppManifest: app.yml becomes, as JSON, a manifest that GitHub takes.
func TestAppManifest(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("app.yml")
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	var m manifest
	if err := json.Unmarshal(asJSON, &m); err != nil {
		t.Fatalf("%v in\n%s", err, asJSON)
	}
	if m.Name == "" || len(m.Name) > 34 || m.URL == "" || m.Hook.URL == "" || !m.Hook.Active || m.Public == nil {
		t.Errorf("something is missing in %s", asJSON)
	}
	for _, e := range m.Events {
		permission, known := needed[e]
		if !known {
			t.Errorf("event %s: which permission does it need?", e)
		} else if m.Permissions[permission] == "" {
			t.Errorf("event %s needs the permission %s", e, permission)
		}
	}
	for e := range needed {
		if !slices.Contains(m.Events, e) {
			t.Errorf("event %s is not listed, and we use it", e)
		}
	}
	if len(slices.Compact(slices.Sorted(slices.Values(m.Events)))) != len(m.Events) {
		t.Error("an event is listed twice")
	}
	for name, level := range m.Permissions {
		if level != "read" && level != "write" {
			t.Errorf("permission %s is %q", name, level)
		}
	}
	// What is asked for is what the preflight looks for.
	if !maps.Equal(m.Permissions, account.Permissions) {
		t.Errorf("permissions are %v, and account.Permissions %v", m.Permissions, account.Permissions)
	}
	if events := slices.Sorted(slices.Values(m.Events)); !slices.Equal(events, account.Events) {
		t.Errorf("events are %v, and account.Events %v", events, account.Events)
	}
}
