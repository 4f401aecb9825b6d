package webhook

import (
	"encoding/json"
	"strconv"

	"signalbox/queue"
)

// doubt looks into a payload that does not decode for whom it is about, so
// that the host can be asked at once what it wanted to say. One odd date or a
// number written as text must not leave a run waiting for the next resync.
// Whatever it cannot find is nothing; nothing that it finds is believed.
func doubt(name string, payload []byte) translation {
	var whole any
	if json.Unmarshal(payload, &whole) != nil {
		return translation{}
	}
	t := translation{repo: number(at(whole, "repository", "id"))}
	switch name {
	case "check_run", "check_suite", "workflow_run":
		t.facts = checksDoubted(text(at(whole, name, "head_sha")))
	case "status":
		t.facts = checksDoubted(text(at(whole, "sha")))
	case "pull_request", "pull_request_review", "pull_request_review_thread":
		if n := number(at(whole, "pull_request", "number")); n > 0 {
			t.facts = []queue.Fact{queue.PullRequestDoubted{PR: n}}
		}
	case "branch_protection_rule", "repository_ruleset":
		t.facts = []queue.Fact{queue.RulesChanged{}}
	}
	return t
}

// at follows keys into decoded JSON; nil where the way ends.
func at(v any, keys ...string) any {
	for _, key := range keys {
		object, _ := v.(map[string]any)
		v = object[key]
	}
	return v
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// number is a whole number, also one written as text; 0 for anything else.
func number(v any) int64 {
	switch v := v.(type) {
	case float64:
		if v > 0 && v < 1<<53 {
			return int64(v)
		}
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil && n > 0 {
			return n
		}
	}
	return 0
}
