package flaky

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// The first two ids, and those of given ids, are what the analytics CLI makes
// of the same names; so are ids that people already have.
func TestIdsAreThoseOfTheAnalyticsCLI(t *testing.T) {
	t.Parallel()
	example := Test{Org: "example_org", Repo: "example_repo", File: "src/lib.rs", Classname: "ExampleClass", Parent: "parent/fact/path", Name: "example_name"}
	with := func(change func(*Test)) Test { c := example; change(&c); return c }
	for name, c := range map[string]struct {
		test Test
		id   string
	}{
		"all names":         {example, "06cb6db5-f807-5198-b072-af67a0636f8a"},
		"with a variant":    {with(func(t *Test) { t.Variant = "unix" }), "1bf61475-b542-5faf-aa85-e66a691257a3"},
		"with slashes":      {Test{Org: "org_slug", Repo: "host/owner/name", File: "file", Classname: "class_name", Parent: "parent_name", Name: "test_name"}, "aad1f138-09ab-5ea9-9c21-af48a03d6edd"},
		"without a file":    {Test{Org: "trunk-staging-org", Repo: "github.com/trunk-io/trunk", Classname: "modules/settings/repoName/__tests__/ticketing-integration.vitest.tsx", Parent: "modules/settings/repoName/__tests__/ticketing-integration.vitest.tsx", Name: "Ticketing Integration > should allow you to select a ticketing system"}, "3f507aef-e834-523b-a8ad-edaba6b137be"},
		"given v5":          {with(func(t *Test) { t.Given = "a6e84936-3ee9-57d5-b041-ae124896f654" }), "a6e84936-3ee9-57d5-b041-ae124896f654"},
		"given v5, variant": {with(func(t *Test) { t.Given = "a6e84936-3ee9-57d5-b041-ae124896f654"; t.Variant = "unix" }), "8057218b-95e4-5373-afbe-c366d4058615"},
		"given trunk:":      {with(func(t *Test) { t.Given = "trunk:12345"; t.Variant = "unix" }), "4392f63c-8dc9-5cec-bbdc-e7b90c2e5a6b"},
		"given v4":          {with(func(t *Test) { t.Given = "08e1c642-3a55-45cf-8bf9-b9d0b21785dd" }), "06cb6db5-f807-5198-b072-af67a0636f8a"},
		"given nonsense":    {with(func(t *Test) { t.Given = "case 7" }), "06cb6db5-f807-5198-b072-af67a0636f8a"},
	} {
		if got := c.test.ID().String(); got != c.id {
			t.Errorf("%s: %s, want %s", name, got, c.id)
		}
	}
}

// Parameters tell tests apart, and so does what comes after the part of a long
// name that is shown.
func TestWholeNamesCount(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 20_000)
	ids := map[string]string{}
	for _, name := range []string{"", "x", "test_x[a]", "test_x[b]", strings.Repeat("n", 1000), strings.Repeat("n", 1001), long, long + "!"} {
		id := Test{Org: "o", Repo: "r", Name: name}.ID().String()
		if other, taken := ids[id]; taken {
			t.Errorf("%.20q and %.20q share an id", name, other)
		}
		ids[id] = name
		shown := Shown(name)
		if n := utf8.RuneCountInString(shown); n > ShownLength || !utf8.ValidString(shown) {
			t.Errorf("%.20q is shown with %d characters", name, n)
		}
		if cut := utf8.RuneCountInString(name) > ShownLength; cut != strings.HasSuffix(shown, "…") || !cut && shown != name {
			t.Errorf("%.20q is shown as %.20q…%q", name, shown, shown[max(0, len(shown)-5):])
		}
	}
}
