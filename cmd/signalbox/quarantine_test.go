package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Decisions go out as a file and come back from it; what is no such file is not
// sent.
func TestDecisionsGoOutAndComeBack(t *testing.T) {
	t.Parallel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.URL.Path+" "+string(body))
		if strings.HasSuffix(r.URL.Path, "export-quarantine") {
			_, _ = io.WriteString(w, `{"overrides":[{"name":"a","setting":"NEVER_QUARANTINE"}]}`)
			return
		}
		_, _ = io.WriteString(w, `{"changed":1,"unknown":[{"test_id":"","file":"b.go","name":"b"}]}`)
	}))
	defer server.Close()
	call := func(in string, args ...string) (string, error) {
		var out bytes.Buffer
		err := run(t.Context(), append(args, "--url", server.URL, "--token", "x", "--repo", "github.com/Acme/app"), console{in: strings.NewReader(in), out: &out, err: io.Discard})
		return out.String(), err
	}
	file, err := call("", "quarantine", "export")
	if err != nil || !strings.Contains(file, "NEVER_QUARANTINE") {
		t.Fatalf("%q %v", file, err)
	}
	name := filepath.Join(t.TempDir(), "decisions.json")
	if err := os.WriteFile(name, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "Decisions that are others now: 1. Tests that Acme/app does not have: 1.\n   b.go b\n"
	if out, err := call("", "quarantine", "import", name, "--org", "globex"); err != nil || out != want {
		t.Errorf("%q %v", out, err)
	}
	if out, err := call(file, "quarantine", "import", "-"); err != nil || out != want {
		t.Errorf("from standard input: %q %v", out, err)
	}
	if len(asked) != 3 || !strings.Contains(asked[1], `"org_url_slug":"globex"`) || !strings.Contains(asked[2], `"org_url_slug":"acme"`) || !strings.Contains(asked[2], `"name":"a"`) {
		t.Errorf("asked: %q", asked)
	}
	for _, bad := range []string{"", "[]", "{}", "hello"} {
		if _, err := call(bad, "quarantine", "import", "-"); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if _, err := call("", "quarantine", "import", name+".not"); err == nil || len(asked) != 3 {
		t.Errorf("a file that is not there: %v, %d requests", err, len(asked))
	}
}
