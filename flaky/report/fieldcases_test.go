package report

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"strings"
	"testing"

	"signalbox/flaky"
)

// Bug reports of other products about what tests report, as a whole upload is
// read. docs/field-cases.md lists them.

func readReport(xml string) flaky.Read {
	u := flaky.Upload{Org: "acme", Repo: "github.com/acme/app", Received: uploaded}
	return Read(u, []byte(xml))
}

// shown are the tests of an upload: name, and - where it failed.
func shown(read flaky.Read) string {
	var b strings.Builder
	for _, t := range read.Tests {
		fmt.Fprintf(&b, "%s", t.Name)
		if t.Failed {
			b.WriteString("-")
		}
		b.WriteString(" ")
	}
	for _, n := range read.Notes {
		b.WriteString(n.Code + " ")
	}
	return strings.TrimSpace(b.String())
}

func TestBC91WhateverTheNesting(t *testing.T) {
	t.Parallel()
	const cases = `<testcase classname="c" name="a"/><testcase classname="c" name="b"><failure message="m"/></testcase><testcase classname="c" name="d"/>`
	for name, xml := range map[string]string{
		"root testsuite":               `<testsuite name="s">` + cases + `</testsuite>`,
		"root testsuites":              `<testsuites><testsuite name="s">` + cases + `</testsuite></testsuites>`,
		"suites in suites":             `<testsuites><testsuite name="s"><testsuite name="t"><testsuite name="u">` + cases + `</testsuite></testsuite></testsuite></testsuites>`,
		"cases directly in testsuites": `<testsuites name="s">` + cases + `</testsuites>`,
	} {
		if got := shown(readReport(xml)); got != "a b- d" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestBC92DurationsThatAreNone(t *testing.T) {
	t.Parallel()
	for time, want := range map[string]float64{``: -1, `time=""`: -1, `time="1,234.5"`: 1234.5, `time="-1.0"`: -1, `time="NaN"`: -1, `time="1200"`: 1200, `time="1e-3"`: 0.001} {
		xml := `<testsuite name="s"><testcase classname="c" name="a" ` + time + `/></testsuite>`
		var got []float64
		if _, err := ScanJUnit(strings.NewReader(xml), Options{Uploaded: uploaded}, func(c *Case) error { got = append(got, c.Seconds); return nil }); err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%s: %v %v, want %v", time, got, err, want)
		}
		if read := readReport(xml); len(read.Tests) != 1 || !read.Complete() {
			t.Errorf("%s: %+v", time, read)
		}
	}
}

func TestBC94CasesCountAndNotCounters(t *testing.T) {
	t.Parallel()
	var cases strings.Builder
	for i := range 7 {
		fmt.Fprintf(&cases, `<testcase classname="c" name="t%d"/>`, i)
	}
	read := readReport(`<testsuite name="s" tests="8" failures="1">` + cases.String() + `<testcase classname="c" name="flaky"><flakyFailure message="m"/></testcase></testsuite>`)
	if len(read.Tests) != 8 || !read.Complete() {
		t.Fatalf("%d tests, %+v", len(read.Tests), read.Notes)
	}
	for _, test := range read.Tests {
		if !test.Passed || test.Failed != (test.Name == "flaky") {
			t.Errorf("%+v", test)
		}
	}
}

func TestBC95ACaseTwiceWithoutAFailureIsTwoAttempts(t *testing.T) {
	t.Parallel()
	const again = `<testcase classname="tests.test_shop" name="test_a" file="tests/test_shop.py" line="7" time="0.1"/>`
	read := readReport(`<testsuites><testsuite name="pytest" tests="2">` + again + again + `<testcase classname="tests.test_shop" name="test_b" file="tests/test_shop.py" line="9"/></testsuite></testsuites>`)
	if len(read.Tests) != 2 || read.Tests[0].Failed || !read.Tests[0].Passed {
		t.Errorf("%+v", read)
	}
}

func TestBC97ParametersAreOfTheIdentity(t *testing.T) {
	t.Parallel()
	read := readReport(`<testsuite name="s"><testcase classname="c" name="test_x[a]"><failure message="m"/></testcase><testcase classname="c" name="test_x[b]"/></testsuite>`)
	if got := shown(read); got != "test_x[a]- test_x[b]" || read.Tests[0].ID == read.Tests[1].ID {
		t.Errorf("%s: %+v", got, read.Tests)
	}
}

func TestBC98NamesOfAnyLengthAndFilesFromAnywhere(t *testing.T) {
	t.Parallel()
	const given = "6b1f1c3a-5c1e-5d2a-9f6e-0d0a6a1b2c3d"
	one := func(suite, attributes string) flaky.Seen {
		t.Helper()
		read := readReport(`<testsuite name="s" ` + suite + `><testcase classname="c" ` + attributes + `/></testsuite>`)
		if len(read.Tests) != 1 {
			t.Fatalf("%s: %+v", attributes[:min(len(attributes), 50)], read)
		}
		return read.Tests[0]
	}
	if read := readReport(`<testsuite name="s"><testcase classname="c" name=""/></testsuite>`); len(read.Tests) != 0 || !strings.Contains(shown(read), "NAMELESS_CASES") {
		t.Errorf("without a name: %s", shown(read))
	}
	ids := map[string]bool{}
	for _, length := range []int{1, 1000, 1001, 20_000} {
		test := one("", `name="`+strings.Repeat("n", length)+`"`)
		if len(flaky.Shown(test.Name)) > flaky.ShownLength+3 || len(test.Name) != length {
			t.Errorf("of %d characters: %d are kept", length, len(test.Name))
		}
		ids[test.ID.String()] = true
	}
	if len(ids) != 4 {
		t.Errorf("%d ids of four names", len(ids))
	}
	a, b := one(`file="suite.py"`, `name="n"`), one("", `name="n" filepath="other.py"`)
	if a.File != "suite.py" || b.File != "other.py" || a.ID == b.ID || one(`file="suite.py"`, `name="n" file="own.py"`).File != "own.py" {
		t.Errorf("files %q and %q", a.File, b.File)
	}
	if got := one("", `name="n" id="`+given+`"`).ID.String(); got != given {
		t.Errorf("the id of the report became %s", got)
	}
}

func TestBC100ANULInTestOutput(t *testing.T) {
	t.Parallel()
	read := readReport("<testsuite name=\"s\"><testcase classname=\"c\" name=\"a\x00b\"><failure message=\"x&#0;y\">\x00</failure></testcase></testsuite>")
	if len(read.Tests) != 1 || read.Tests[0].Name != "a\uFFFDb" || strings.ContainsRune(read.Tests[0].Failure.Message+read.Tests[0].Failure.Text+read.Tests[0].Summary, 0) {
		t.Errorf("%+v", read)
	}
}

// Of many reports, those are named that something is wrong with, as the form or the
// bundle calls them. Names come from outside.
func TestNotesNameTheFile(t *testing.T) {
	t.Parallel()
	const whole, cut = `<testsuite name="s"><testcase name="a"/></testsuite>`, `<testsuite name="s"><testcase name="b"/><testcase`
	form := func(names ...string) flaky.Read {
		files := make([][2]string, len(names))
		for i, name := range names {
			files[i] = [2]string{name, map[bool]string{true: whole, false: cut}[i == 0 && name == "a.xml"]}
		}
		return Read(formOf(t, files...))
	}
	const cutOff = "The report is cut off: what came before is kept, the rest is missing"
	for _, c := range []struct {
		read flaky.Read
		want string
	}{
		{readReport(cut), cutOff + "."},
		{form("a.xml"), ""},
		{form("only.xml"), cutOff + "."},
		{form("a.xml", "x/T.xml"), cutOff + " (x/T.xml)."},
		{form("a.xml", "x/T.xml", "y/T.xml"), cutOff + " (x/T.xml and 1 more file)."},
		{form("a.xml", "x/T.xml", "y/T.xml", "z/T.xml"), cutOff + " (x/T.xml and 2 more files)."},
		{form("a.xml", "\xff.xml"), cutOff + " (\uFFFD.xml)."},
	} {
		got := ""
		for _, n := range c.read.Notes {
			if n.Incomplete {
				got += n.Text
			}
		}
		if got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	_, b, err := readBundle(tarOf(file{"meta.json", bundleMeta, tar.TypeReg}, file{"junit/0", whole, tar.TypeReg}, file{"junit/1", cut, tar.TypeReg}))
	if err != nil || len(b.Notes) != 1 || b.Notes[0].String() != cutOff+" (/x/b.xml)." {
		t.Errorf("%v, %v", b.Notes, err)
	}
}

// formOf is an upload of reports, each with its name, as a compressed form.
func formOf(t *testing.T, reports ...[2]string) (flaky.Upload, []byte) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := multipart.NewWriter(z)
	for _, r := range reports {
		part, err := w.CreateFormFile("report", r[0])
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(part, r[1])
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return flaky.Upload{Org: "acme", Repo: "github.com/acme/app", Received: uploaded, Sent: flaky.Sent{ContentType: w.FormDataContentType()}}, b.Bytes()
}
