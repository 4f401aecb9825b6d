package github

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// What a configuration file says, or the one thing that is wrong with it: a
// person finds the line.
func TestConfigurationFilesAreReadOrTheirMistakeIsNamed(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"":                                  "[]",
		"# nothing\n":                       "[]",
		"merge:\n":                          "[]",
		"merge: {required_statuses: []}\n":  "[]",
		"version: 0.1\ncli: {version: 1}\n": "[]",
		"merge:\n  required_statuses: [test, 'a b']\n":               `["test" "a b"]`,
		"merge:\n  required_statuses:\n  - 1.0\n  - yes\n  - 08\n":   `["1.0" "yes" "08"]`,
		"merge:\n  required_statuses:\n  - >-\n    long\n    name\n": `["long name"]`,
		"x: &n test\nmerge:\n  required_statuses: [*n]\n":            `["test"]`,
		"merge:\r\n  required_statuses: [test]\r\n":                  `["test"]`,
		"merge:\n  required_statuses: oops\n":                        "f.yaml: line 2: string was used where sequence is expected",
		"merge:\n\n  required_statuses:\n    test: true\n":           "f.yaml: line 4: mapping was used where sequence is expected",
		"merge: required\n":                                               "f.yaml: line 1: string was used where mapping is expected",
		"merge:\n  required_statuses:\n  - a\n  - ''\n":                   "f.yaml: line 4: merge.required_statuses, entry 2, is not the name of a status",
		"merge:\n  required_statuses:\n  - a\n  - {b: c}\n":               "f.yaml: line 4: merge.required_statuses, entry 2, is not the name of a status",
		"merge:\n  required_statuses:\n  - a\n  - [b]\n":                  "f.yaml: line 4: merge.required_statuses, entry 2, is not the name of a status",
		"merge:\n  required_statuses:\n  -\n":                             "f.yaml: line 3: merge.required_statuses, entry 1, is not the name of a status",
		"merge:\n  required_statuses:\n  - \"a\\nb\"\n":                   "f.yaml: line 3: merge.required_statuses, entry 1, is not the name of a status",
		"merge:\n  required_statuses:\n  - " + strings.Repeat("a", 256):   "f.yaml: line 3: merge.required_statuses, entry 1, is longer than 255 bytes",
		"merge:\n  required_statuses:\n" + strings.Repeat("  - a\n", 201): "f.yaml: line 203: merge.required_statuses names 201 statuses, more than 200",
		"merge:\n  required_statuses: [a]\n  required_statuses: [b]\n":    `f.yaml: line 3: mapping key "required_statuses" already defined at [2:3]`,
		"merge: {}\nmerge: {}\n":                                          `f.yaml: line 2: mapping key "merge" already defined at [1:1]`,
		"merge:\n  required_statuses: [a\n":                               "f.yaml: line 2: sequence end token ']' not found",
		"merge:\n\trequired_statuses: [a]\n":                              "f.yaml: line 2: found character ' ' that cannot start any token",
		"merge:\n  required_statuses: [\"\xff\"]\n":                       "f.yaml: it is not text in UTF-8",
		"merge: *nobody\n":                                                `f.yaml: line 1: could not find alias "nobody"`,
	} {
		list, err := parseConfig("f.yaml", []byte(body))
		got := fmt.Sprintf("%q", list)
		var config *configError
		if errors.As(err, &config) {
			got = config.message
		}
		if got != want {
			t.Errorf("%.60q:\n got %s\nwant %s", body, got, want)
		}
	}
}

// BC-80 (chdsbd/kodiak#211): nothing in the file is a pattern or a template that
// somebody else's text is matched with or put into. A name is that name.
func TestNamesInTheConfigurationAreNoPatterns(t *testing.T) {
	t.Parallel()
	list, err := parseConfig("f.yaml", []byte("blocking_title_regex: (a+)+$\nmerge:\n  required_statuses: ['(a+)+$', '{{ title }}', '${GITHUB_TOKEN}', '*']\n"))
	if got := fmt.Sprintf("%q %v", list, err); got != `["(a+)+$" "{{ title }}" "${GITHUB_TOKEN}" "*"] <nil>` {
		t.Errorf("got %s", got)
	}
}

// Whatever a stranger writes, the answer comes, names no more than it may, and
// an error says which file.
func FuzzConfigurationFile(f *testing.F) {
	f.Add("merge:\n  required_statuses: [a, *b, 1]\n")
	f.Add("a: &a [x, x]\nb: &b [*a, *a]\nmerge:\n  required_statuses: *b\n")
	f.Add("? {a: b}\n: c\nmerge: !!str x\n--- \nmerge:\n")
	f.Fuzz(func(t *testing.T, body string) {
		if len(body) > maxConfig {
			return
		}
		list, err := parseConfig("f.yaml", []byte(body))
		var config *configError
		if err != nil && (!errors.As(err, &config) || !strings.HasPrefix(config.message, "f.yaml: ")) {
			t.Errorf("%v", err)
		}
		for _, name := range list {
			if name == "" || len(name) > maxName {
				t.Errorf("%q", name)
			}
		}
		if len(list) > maxRequired {
			t.Errorf("%d names", len(list))
		}
	})
}
