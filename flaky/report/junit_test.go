package report

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "write what the scanners say into testdata, to be reviewed")

// uploaded is when every report of the tests came.
var uploaded = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// told is all that a scanner says of a report, then what a collector makes of
// it, as lines of text.
func told(t testing.TB, scan func(func(*Case) error) (Notes, error)) string {
	t.Helper()
	var b strings.Builder
	c := NewCollector("org", "github.com/owner/repo", "")
	notes, err := scan(func(k *Case) error {
		b.WriteString(describe(k))
		return c.Add(k)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range notes {
		fmt.Fprintf(&b, "note %s: %s\n", n.Code, n)
	}
	c.Note(notes)
	tests, all := c.Tests()
	for i := range tests {
		if k := &tests[i]; k.Attempts > 1 || k.Ambiguous {
			fmt.Fprintf(&b, "test %q: %s, failed %t, ambiguous %t, %d attempts, %q\n", k.Name, k.Outcome, k.Failed, k.Ambiguous, k.Attempts, k.Summary)
		}
	}
	for _, n := range all[len(notes):] {
		fmt.Fprintf(&b, "note %s: %s\n", n.Code, n)
	}
	if len(all.Problems()) > 0 {
		b.WriteString("incomplete\n")
	}
	return b.String()
}

func describe(k *Case) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q", k.Outcome, k.Name)
	for _, f := range []struct{ name, value string }{
		{"class", k.Classname}, {"parent", k.Parent}, {"file", k.File}, {"variant", k.Variant}, {"id", k.Given},
		{"type", k.Failure.Type}, {"message", k.Failure.Message}, {"text", k.Failure.Text}, {"output", k.Output.String()},
	} {
		if f.value != "" {
			fmt.Fprintf(&b, " %s=%q", f.name, f.value)
		}
	}
	if k.Seconds >= 0 {
		fmt.Fprintf(&b, " %gs", k.Seconds)
	}
	if !k.At.IsZero() {
		fmt.Fprintf(&b, " at %s", k.At.Format("2006-01-02T15:04:05.999"))
	}
	b.WriteString("\n")
	for _, e := range k.Earlier {
		fmt.Fprintf(&b, "  after %s %q %q %q\n", e.Outcome, e.Failure.Type, e.Failure.Message, e.Failure.Text)
	}
	return b.String()
}

// golden compares with a file, or writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s\n--- got\n%s--- want\n%s", path, got, want)
	}
}

// Each file of testdata/junit is one oddity that real reports have; the file
// beside it is what is right. The bytes come one by one, and by the half
// kilobyte, and all at once: it makes no difference.
func TestOddities(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/junit/*.xml")
	if err != nil || len(files) < 50 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".xml"), func(t *testing.T) {
			t.Parallel()
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			read := func(size int) string {
				return told(t, func(each func(*Case) error) (Notes, error) {
					return ScanJUnit(&slow{content, size}, Options{Uploaded: uploaded}, each)
				})
			}
			whole := read(len(content) + 1)
			golden(t, strings.TrimSuffix(file, ".xml")+".want", whole)
			for _, size := range []int{1, 7, 512} {
				if got := read(size); got != whole {
					t.Errorf("in pieces of %d bytes:\n%s--- at once\n%s", size, got, whole)
				}
			}
		})
	}
}

// slow gives so many bytes at a time.
type slow struct {
	rest []byte
	size int
}

func (s *slow) Read(b []byte) (int, error) {
	n := copy(b, s.rest[:min(s.size, len(s.rest))])
	s.rest = s.rest[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// A test that prints without an end costs no memory: both ends of what it says
// are kept, and how long it was.
func TestLongTextsAreStreamed(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("all work and no play ", 50) + "&amp;\n"
	for _, c := range []struct{ open, end string }{{"", ""}, {"<![CDATA[", "]]>"}} {
		var src bytes.Buffer
		src.WriteString(`<testsuite name="s"><testcase classname="c" name="a"><system-out>` + c.open + "BEGIN\n")
		for src.Len() < 8<<20 {
			src.WriteString(line)
		}
		src.WriteString("THE END" + c.end + `</system-out><failure message="m">` + c.open + "BEGIN\n" + strings.Repeat(line, 100) + "THE END" + c.end + `</failure></testcase></testsuite>`)
		size := int64(src.Len())
		n := 0
		notes, err := ScanJUnit(&src, Options{Uploaded: uploaded}, func(k *Case) error {
			n++
			o := k.Output
			if !strings.HasPrefix(o.Head, "BEGIN\n") || !strings.HasSuffix(o.Tail, "THE END") || o.Size < 8<<20 || o.Size > size || len(o.Head)+len(o.Tail) > 2*outputEnds {
				t.Errorf("output of %d bytes: %.20q … %q", o.Size, o.Head, o.Tail[max(0, len(o.Tail)-20):])
			}
			f := k.Failure.Text
			if !strings.HasPrefix(f, "BEGIN\n") || !strings.HasSuffix(f, "THE END") || len(f) > 2*failureEnds+20 {
				t.Errorf("failure of %d bytes: %.20q", len(f), f)
			}
			return nil
		})
		if n != 1 || len(notes) > 0 || err != nil {
			t.Errorf("%d cases, %v, %v", n, notes, err)
		}
	}
}

// Rows of beginnings without an end take a time that grows with their length
// and no faster: each of these would take hours otherwise.
func TestHostileReportsTakeNoTime(t *testing.T) {
	t.Parallel()
	const n = 8 << 20
	for name, row := range map[string]string{
		"end tags": "</", "start tags": "<a ", "quotes": `<a b="`, "both quotes": `<a b="<a b='`, "attributes": "<a b=c", "cdata": "<![CDATA[", "comments": "<!--",
		"declarations": "<!DOCTYPE [", "references": "&amp", "suites": "<testsuite>", "cases": "<testcase name='a'>", "failures": "<testcase name='a'><failure>",
		"nested": "<failure><testcase>", "instructions": "<?xml ", "one tag": "<testcase " + strings.Repeat("a=b ", 10),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := "<testsuite><testcase name='x'><failure>" + strings.Repeat(row, n/len(row))
			for _, start := range []string{"", content[:39], content[:11]} {
				if _, err := ScanJUnit(&slow{[]byte(start + content[39:]), 100}, Options{Uploaded: uploaded}, func(*Case) error { return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
