package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// encoding/xml is the oracle: what it reads, we read alike. oracle understands
// the plain part of JUnit only, and says so of the rest: tags in texts, names in
// other cases, attributes twice, references that only we let stand.

// plainCase is what both can tell of a case.
type plainCase struct {
	name, class, parent, file string
	outcome                   Outcome
	kind, message, text       string
}

var errNotPlain = errors.New("not plain")

// oracle reads a report with encoding/xml.
func oracle(content []byte) ([]plainCase, error) {
	if bytes.ContainsAny(content, "\x00\x1b") || !utf8.Valid(content) {
		return nil, errNotPlain
	}
	d := xml.NewDecoder(bytes.NewReader(content))
	d.Entity = map[string]string{}
	var cases []plainCase
	var suites []map[string]string
	roots := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return cases, nil
		}
		if err != nil {
			return nil, err
		}
		switch token := token.(type) {
		case xml.StartElement:
			if len(suites) == 0 {
				roots++
			}
			switch token.Name.Local {
			case "testsuites", "testsuite":
				a, err := attributes(token)
				if err != nil || roots > 1 || len(suites) > 100 {
					return nil, errNotPlain
				}
				a[""] = token.Name.Local
				suites = append(suites, a)
			case "testcase":
				c, err := oracleCase(d, token, suites)
				if err != nil || len(suites) == 0 {
					return nil, errNotPlain
				}
				if strings.TrimSpace(c.name) != "" {
					cases = append(cases, c)
				}
			default:
				return nil, errNotPlain
			}
		case xml.EndElement:
			suites = suites[:len(suites)-1]
		}
	}
}

func attributes(e xml.StartElement) (map[string]string, error) {
	all := map[string]string{}
	for _, a := range e.Attr {
		if _, twice := all[a.Name.Local]; twice || a.Name.Space != "" || a.Name.Local != strings.ToLower(a.Name.Local) || len(e.Attr) > 30 {
			return nil, errNotPlain
		}
		switch a.Name.Local {
		case "filepath", "status", "result", "class", "hostname":
			return nil, errNotPlain
		}
		all[a.Name.Local] = a.Value
	}
	return all, nil
}

func oracleCase(d *xml.Decoder, e xml.StartElement, suites []map[string]string) (plainCase, error) {
	a, err := attributes(e)
	c := plainCase{name: a["name"], class: a["classname"], file: a["file"], outcome: Passed}
	for i, s := range suites {
		if s[""] == "testsuite" && (i == 0 || suites[0][""] == "testsuites" && i == 1) {
			c.parent = s["name"]
		}
		if s["file"] != "" && a["file"] == "" {
			c.file = s["file"]
		}
	}
	failures := 0
	for err == nil {
		var token xml.Token
		if token, err = d.Token(); err != nil {
			break
		}
		switch token := token.(type) {
		case xml.EndElement:
			return c, nil
		case xml.StartElement:
			var text string
			var attrs map[string]string
			if attrs, err = attributes(token); err == nil {
				text, err = oracleText(d)
			}
			switch token.Name.Local {
			case "failure", "error":
				if failures++; failures > 1 {
					return c, errNotPlain
				}
				c.outcome, c.kind, c.message, c.text = Failed, attrs["type"], attrs["message"], strings.TrimSpace(text)
			case "skipped":
				if c.outcome == Passed {
					c.outcome = Skipped
				}
			case "system-out", "system-err":
			default:
				return c, errNotPlain
			}
		}
	}
	return c, err
}

func oracleText(d *xml.Decoder) (string, error) {
	var b strings.Builder
	for {
		token, err := d.Token()
		if err != nil {
			return "", err
		}
		switch token := token.(type) {
		case xml.CharData:
			b.Write(token)
		case xml.EndElement:
			return b.String(), nil
		case xml.Comment:
		default:
			return "", errNotPlain
		}
	}
}

func ours(content []byte) (cases []plainCase, notes Notes, err error) {
	notes, err = ScanJUnit(bytes.NewReader(content), Options{Uploaded: uploaded}, func(k *Case) error {
		c := plainCase{k.Name, k.Classname, k.Parent, k.File, k.Outcome, k.Failure.Type, k.Failure.Message, k.Failure.Text}
		if k.Outcome != Failed {
			c.kind, c.message, c.text = "", "", ""
		}
		cases = append(cases, c)
		return nil
	})
	return cases, notes, err
}

// declared matches what only the oracle minds: it refuses other sets of
// characters, and versions, that it does not know.
var declared = regexp.MustCompile(`<\?|<!DOCTYPE`)

func compare(t *testing.T, content []byte) (plain bool) {
	t.Helper()
	got, notes, err := ours(content)
	if err != nil {
		t.Fatalf("%v\n%q", err, content)
	}
	want, err := oracle(content)
	if err != nil || declared.Match(bytes.TrimPrefix(content, []byte(xml.Header))) {
		return false
	}
	if len(want) > 0 && fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("%q\n%s\nours       %#v\nthe oracle %#v", content, content, got, want)
	}
	if len(want) > 0 && (notes.Has(Truncated) || notes.Has(Malformed) || notes.Has(NotAReport) || notes.Has(SeveralRoots)) {
		t.Errorf("%q is well-formed, and yet %v", content, notes)
	}
	return true
}

func TestWellFormedReportsReadAsTheOracleDoes(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("testdata/junit/*.xml")
	plain := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if compare(t, content) {
			plain++
		}
	}
	if plain < 15 {
		t.Errorf("the oracle read only %d of %d files", plain, len(files))
	}
}

func FuzzJUnit(f *testing.F) {
	files, _ := filepath.Glob("testdata/junit/*.xml")
	for _, file := range files {
		if content, err := os.ReadFile(file); err == nil {
			f.Add(content)
		}
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		compare(t, content)
		read := func(size int) string {
			return told(t, func(each func(*Case) error) (Notes, error) {
				return ScanJUnit(&slow{content, size}, Options{Uploaded: uploaded}, func(k *Case) error {
					if text := describe(k); strings.ContainsAny(text, "\x00\x1b") || !utf8.ValidString(k.Name+k.Classname+k.Failure.Text+k.Output.String()) {
						t.Errorf("%q gives %q", content, text)
					}
					return each(k)
				})
			})
		}
		whole, pieces := read(len(content)+1), read(3)
		// An invalid sequence that is cut is replaced by more characters.
		if utf8.Valid(content) && whole != pieces {
			t.Errorf("%q\nat once\n%sin pieces\n%s", content, whole, pieces)
		}
	})
}
