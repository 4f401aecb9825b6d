package flaky

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// What changes from run to run does not change the fingerprint, and the line
// that is shown says what was there.
func TestSameFailureSameFingerprint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want string
		same []Failure
	}{
		{"TimeoutError: no answer from <host> after <duration>", []Failure{
			{Type: "TimeoutError", Message: "no answer from 10.0.3.7:8080 after 30.2s\nat client.go:17"},
			{Type: "TimeoutError", Message: "\x1b[31mno answer\x1b[0m from 127.0.0.1:41234 after 5000 ms"},
			{Message: "TimeoutError: no answer from [::1]:80 after 1m3.5s"},
		}},
		{"request <uuid> failed at <time> with <n>", []Failure{
			{Message: "request 0a8f9d2e-1111-4222-8333-0123456789ab failed at 2026-11-27T20:07:41.331Z with 503"},
			{Message: "request 7d444840-9dc0-11d1-b245-5ffdce74fad2 failed at 2025-01-02 03:04:05 with 500"},
		}},
		{"java.lang.NullPointerException: at com.example.Widget<address>", []Failure{
			{Type: "java.lang.NullPointerException", Message: "at com.example.Widget@1f32e575"},
			{Type: "java.lang.NullPointerException", Message: "at com.example.Widget@0a"},
		}[:1]},
		{"open <path>: no such file or directory", []Failure{
			{Message: "open /tmp/TestFoo1234/001/config.yaml: no such file or directory"},
			{Message: `open C:\Users\ci\AppData\x.yaml: no such file or directory`},
		}},
		{"widget_test.go:<n>: got <n>, want <n>", []Failure{
			{Message: "Failed", Text: "=== RUN   TestWidget\n    widget_test.go:41: got 3, want 4\n--- FAIL: TestWidget (0.00s)"},
			{Message: "Failed", Text: "    widget_test.go:45: got 12, want 4\n"},
			{Type: "failure", Message: "", Text: "\n\n--- FAIL: TestWidget (3.12s)\n    widget_test.go:41: got 1.5, want 4"},
		}},
		{"commit <hex> is not on deadbeef", []Failure{
			{Message: "commit 8c0cba4f1f1a is not on deadbeef"}, {Message: "commit cc1f8c112ff3ec7aed000b52ecafbdf2e7c7739e is not on deadbeef"},
		}},
	} {
		first, _ := Describe(c.same[0])
		for _, f := range c.same {
			print, summary := Describe(f)
			if summary != c.want || print != first || print.Version() != fingerprintVersion {
				t.Errorf("%+v\n is %q %x, want %q %x", f, summary, print, c.want, first)
			}
		}
	}
}

func TestOtherFailureOtherFingerprint(t *testing.T) {
	t.Parallel()
	seen := map[Fingerprint]Failure{}
	for _, f := range []Failure{
		{}, {Message: "connection refused"}, {Message: "connection reset"}, {Type: "IOError", Message: "connection reset"},
		{Message: "Failed", Text: "a is wrong"}, {Message: "Failed", Text: "b is wrong"}, {Type: "AssertionError"}, {Type: "KeyError"},
	} {
		print, _ := Describe(f)
		if other, taken := seen[print]; taken {
			t.Errorf("%+v and %+v have one fingerprint", f, other)
		}
		seen[print] = f
	}
	if print, summary := Describe(Failure{Message: " \n", Type: "\x1b[0m"}); print != 0 || summary != "" {
		t.Errorf("a failure without text has fingerprint %x, %q", print, summary)
	}
}

func FuzzDescribe(f *testing.F) {
	f.Add("TimeoutError", "no answer after 3s", "stack\nat 0x1234")
	f.Add("", "\x1b]0;title\x07 \xff\xfe", strings.Repeat("é", 3000))
	f.Fuzz(func(t *testing.T, kind, message, text string) {
		print, summary := Describe(Failure{kind, message, text})
		if !utf8.ValidString(summary) && utf8.ValidString(kind+message+text) {
			t.Errorf("summary %q is not UTF-8", summary)
		}
		if n := utf8.RuneCountInString(summary); n > 2*summaryLength+2 {
			t.Errorf("summary has %d characters", n)
		}
		if again, _ := Describe(Failure{kind, message, text}); again != print || print < 0 {
			t.Errorf("fingerprint %x, then %x", print, again)
		}
		if strings.ContainsAny(summary, "\x00\x1b\n") {
			t.Errorf("summary %q", summary)
		}
	})
}
