package sim

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"signalbox/queue"
)

// parseSettings reads the first line of a script: "queue name=value …", the
// names being the API's. Unless it says otherwise there are no draft pull
// requests, one check is required, "ci", and landing is exact.
func parseSettings(words []string) (queue.Settings, error) {
	if words[0] != "queue" {
		return queue.Settings{}, fmt.Errorf(`a script begins with "queue", not with %q`, words[0])
	}
	c, err := parseChange(words[1:])
	if err != nil {
		return queue.Settings{}, err
	}
	if c.RequiredStatuses == nil {
		c.RequiredStatuses = &[]string{"ci"}
	}
	if c.MergeMethod == nil {
		method := queue.MergeCommit
		c.MergeMethod = &method
	}
	if c.CreatePRsForTestingBranches == nil {
		off := false
		c.CreatePRsForTestingBranches = &off
	}
	return queue.NewSettings(c), nil
}

// parseChange reads name=value pairs as a change of settings: values are
// numbers, booleans, words, or words with commas for lists.
func parseChange(words []string) (queue.Change, error) {
	object := map[string]any{}
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		if !ok {
			return queue.Change{}, fmt.Errorf("%q is not name=value", w)
		}
		object[name] = value
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			object[name] = n
		} else if b, err := strconv.ParseBool(value); err == nil {
			object[name] = b
		} else if name == "requiredStatuses" {
			object[name] = strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
		}
	}
	text, err := json.Marshal(object)
	if err != nil {
		return queue.Change{}, err
	}
	var c queue.Change
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	return c, decoder.Decode(&c)
}
