package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"testing"
)

// suiteOf is a suite of 1,000 cases as programs write them: 2 % fail with a
// stack, one prints a lot.
func suiteOf(n int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<testsuite name="com.example.shop.Suite%d" tests="1000" failures="20" errors="0" skipped="0" timestamp="2026-03-02T10:00:00Z" time="12.5">`+"\n", n)
	for i := range 1000 {
		fmt.Fprintf(&b, `  <testcase name="computesTheTotalOfCart%d" classname="com.example.shop.Suite%d" time="0.0%d"`, i, n, i)
		if i%50 > 0 {
			b.WriteString("/>\n")
			continue
		}
		fmt.Fprintf(&b, "><failure message=\"expected: &lt;3&gt; but was: &lt;%d&gt;\" type=\"org.opentest4j.AssertionFailedError\">", i)
		for frame := range 20 {
			fmt.Fprintf(&b, "\tat com.example.shop.Cart.total(Cart.java:%d)\n", frame)
		}
		b.WriteString("</failure></testcase>\n")
	}
	fmt.Fprintf(&b, "  <system-out><![CDATA[%s]]></system-out>\n</testsuite>\n", strings.Repeat("2026-03-02 10:00:00 INFO cart updated & saved\n", 500))
	return b.Bytes()
}

// endless is a report of so many suites, made as it is read.
type endless struct {
	suites [][]byte
	left   int
	now    []byte
}

func newEndless(n int) *endless {
	e := &endless{left: n, now: []byte("<testsuites>\n")}
	for i := range 8 {
		e.suites = append(e.suites, suiteOf(i))
	}
	return e
}

func (e *endless) Read(b []byte) (int, error) {
	if len(e.now) == 0 {
		switch e.left--; {
		case e.left >= 0:
			e.now = e.suites[e.left%len(e.suites)]
		case e.left == -1:
			e.now = []byte("</testsuites>\n")
		default:
			return 0, io.EOF
		}
	}
	n := copy(b, e.now)
	e.now = e.now[n:]
	return n, nil
}

// A report of 200 MB takes the memory of one of 1 MB: no buffer has grown, and
// nothing of what was read is kept.
func TestLargeReportsTakeNoMemory(t *testing.T) {
	t.Parallel()
	const size = 200 << 20
	suite := len(suiteOf(0))
	cases := 0
	j := newJUnit(newEndless(size/suite+1), Options{Uploaded: uploaded}, func(*Case) error { cases++; return nil })
	if err := j.run(); err != nil || len(j.notes) > 0 {
		t.Fatal(err, j.notes)
	}
	if want := 1000 * (size/suite + 1); cases != want {
		t.Errorf("%d cases, want %d", cases, want)
	}
	if len(j.buf) != firstBuffer {
		t.Errorf("the buffer has grown to %d bytes", len(j.buf))
	}
	for name, n := range map[string]int{
		"suites": cap(j.suites), "attempts": cap(j.state.attempts), "texts": cap(j.state.texts), "head": cap(j.body.head) / failureEnds,
		"tail": cap(j.body.tail) / failureEnds, "output": cap(j.printed.tail) / outputEnds, "notes": cap(j.notes),
	} {
		if n > 16 {
			t.Errorf("%s: %d", name, n)
		}
	}
}

// BenchmarkJUnit compares with encoding/xml on the same bytes in the same run,
// because the speed of a machine is not the same for long.
func BenchmarkJUnit(b *testing.B) {
	var content bytes.Buffer
	if _, err := io.Copy(&content, newEndless(100)); err != nil {
		b.Fatal(err)
	}
	b.Run("scanner", func(b *testing.B) {
		b.SetBytes(int64(content.Len()))
		cases := 0
		for b.Loop() {
			if _, err := ScanJUnit(bytes.NewReader(content.Bytes()), Options{Uploaded: uploaded}, func(*Case) error { cases++; return nil }); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(cases)/b.Elapsed().Seconds(), "cases/s")
	})
	b.Run("encoding-xml", func(b *testing.B) {
		b.SetBytes(int64(content.Len()))
		for b.Loop() {
			d := xml.NewDecoder(bytes.NewReader(content.Bytes()))
			for {
				if _, err := d.RawToken(); err != nil {
					break
				}
			}
		}
	})
	b.Run("collector", func(b *testing.B) {
		cases := 0
		for b.Loop() {
			c := NewCollector("org", "github.com/owner/repo", "")
			if _, err := ScanJUnit(bytes.NewReader(content.Bytes()), Options{Uploaded: uploaded}, func(k *Case) error { cases++; return c.Add(k) }); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(cases)/b.Elapsed().Seconds(), "cases/s")
	})
}
