package db

import (
	"encoding/json"
	"strings"
	"testing"
)

// Whatever a text holds, it arrives without NUL, as valid UTF-8, and otherwise
// as it was; and a text that only looks like an escaped NUL stays.
func FuzzEncode(f *testing.F) {
	for _, s := range []string{"", "a\x00b", `\u0000`, `\\u0000`, "\\\x00", "\x00\x00", "\xff\x00", "\u2028<&>", `"\`, "\\\\\x00u0000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text, err := encode(map[string]any{"key": s, s: 1})
		if err != nil {
			t.Fatal(err)
		}
		var back map[string]any
		if err := json.Unmarshal([]byte(text), &back); err != nil {
			t.Fatalf("%q became %s: %v", s, text, err)
		}
		if s == "key" {
			return
		}
		if got, want := back["key"], clean(s); got != want && want != "key" {
			t.Errorf("%q became %q, want %q", s, got, want)
		}
		if strings.Contains(text, "\x00") || strings.ContainsRune(clean(s), 0) {
			t.Errorf("%q kept a NUL", s)
		}
	})
}
