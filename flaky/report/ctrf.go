package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"signalbox/flaky"
)

// maxValue bounds one JSON value that is held at once.
const maxValue = 16 << 20

var errLongValue = errors.New("a JSON value of more than 16 MiB")

// pacer reads no further than maxValue past the last mark, so that a decoder of
// JSON never holds more than that.
type pacer struct {
	r    io.Reader
	left int
	long bool
}

func (p *pacer) mark() { p.left = maxValue }

func (p *pacer) Read(b []byte) (int, error) {
	if p.left <= 0 {
		p.long = true
		return 0, errLongValue
	}
	n, err := p.r.Read(b[:min(len(b), p.left)])
	p.left -= n
	return n, err
}

// ctrfTest is a test in the common test report format (ctrf.io), as far as it
// matters here.
type ctrfTest struct {
	Name          string          `json:"name"`
	Status        string          `json:"status"`
	Duration      float64         `json:"duration"` // milliseconds
	Start         int64           `json:"start"`    // milliseconds since 1970
	Suite         json.RawMessage `json:"suite"`    // a string; from version 0.1 on a list
	Message       string          `json:"message"`
	Trace         string          `json:"trace"`
	FilePath      string          `json:"filePath"`
	Retries       int             `json:"retries"`
	Flaky         bool            `json:"flaky"`
	Browser       string          `json:"browser"`
	RetryAttempts []struct {
		Status  string `json:"status"`
		Message string `json:"message"`
		Trace   string `json:"trace"`
	} `json:"retryAttempts"`
}

// ScanCTRF reads a report in the common test report format. The tests are read
// one at a time.
func ScanCTRF(r io.Reader, o Options, each func(*Case) error) (Notes, error) {
	c := &ctrf{options: o, each: each, src: &pacer{r: r}, announced: -1}
	c.src.mark()
	c.json = json.NewDecoder(c.src)
	err := c.object(func(key string) error {
		if key == "results" {
			return c.object(c.result)
		}
		return c.skip()
	})
	return c.finish(err)
}

type ctrf struct {
	options   Options
	each      func(*Case) error
	src       *pacer
	json      *json.Decoder
	decoder   decoder
	notes     Notes
	announced int
	found     int
	tests     bool
	stopped   error // of each
}

// finish turns what stopped the reading into a note, unless it is not the
// report's fault.
func (c *ctrf) finish(err error) (Notes, error) {
	var syntax *json.SyntaxError
	var shape *json.UnmarshalTypeError
	switch {
	case c.stopped != nil:
		return c.notes, c.stopped
	case c.src.long:
		c.notes.add(Malformed, errLongValue.Error())
	case errors.Is(err, io.EOF) && c.json.InputOffset() == 0:
		c.notes.add(Empty, "")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		c.notes.add(Truncated, "")
	case errors.As(err, &syntax), errors.As(err, &shape), errors.Is(err, errShape):
		c.notes.add(Malformed, err.Error())
	case err != nil:
		return c.notes, err
	case !c.tests:
		c.notes.add(NotAReport, "it has no list of tests")
	case c.announced > c.found:
		c.notes.add(FewerCases, "the summary")
	case c.announced >= 0 && c.announced < c.found:
		c.notes.add(OtherCounts, "the summary")
	}
	if c.decoder.replaced > 0 {
		c.notes.addMany(BadCharacters, c.decoder.replaced, "")
	}
	return c.notes, nil
}

var errShape = errors.New("another kind of JSON value was expected")

// object reads an object and calls a function at each value.
func (c *ctrf) object(value func(key string) error) error {
	if err := c.delim('{'); err != nil {
		return err
	}
	for c.json.More() {
		key, err := c.json.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		if err := value(name); err != nil {
			return err
		}
	}
	return c.delim('}')
}

func (c *ctrf) delim(want json.Delim) error {
	token, err := c.json.Token()
	if err != nil {
		return err
	}
	if token != want {
		return fmt.Errorf("%w: %q", errShape, want)
	}
	return nil
}

func (c *ctrf) skip() error {
	c.src.mark()
	var value json.RawMessage
	return c.json.Decode(&value)
}

func (c *ctrf) result(key string) error {
	switch key {
	case "summary":
		summary := struct{ Tests *int }{}
		err := c.json.Decode(&summary)
		if summary.Tests != nil {
			c.announced = *summary.Tests
		}
		return err
	case "tests":
		c.tests = true
		if err := c.delim('['); err != nil {
			return err
		}
		for c.json.More() {
			c.src.mark()
			var t ctrfTest
			if err := c.json.Decode(&t); err != nil {
				return err
			}
			if c.stopped = c.test(t); c.stopped != nil {
				return c.stopped
			}
		}
		return c.delim(']')
	}
	return c.skip()
}

// test gives one test away.
func (c *ctrf) test(t ctrfTest) error {
	c.found++
	if strings.TrimSpace(t.Name) == "" {
		c.notes.add(Nameless, "")
		return nil
	}
	suites := suitesOf(t.Suite)
	k := Case{Name: c.decoder.finish(t.Name), File: c.decoder.finish(t.FilePath), Classname: c.decoder.finish(strings.Join(suites, " > ")), Seconds: -1, Outcome: ctrfOutcome(t.Status)}
	if len(suites) > 0 {
		k.Parent = c.decoder.finish(suites[0])
	}
	if t.Duration > 0 {
		k.Seconds = t.Duration / 1000
	}
	if t.Start > 0 {
		k.At = c.options.plausible(fmt.Sprint(t.Start), &c.notes)
	}
	// The version of a browser changes; its name is a setting.
	k.Variant, _, _ = strings.Cut(c.decoder.finish(t.Browser), " ")
	k.Failure = flaky.Failure{Message: c.decoder.message(t.Message), Text: c.decoder.message(t.Trace)}
	for _, a := range t.RetryAttempts[:min(len(t.RetryAttempts), maxAttempts)] {
		k.Earlier = append(k.Earlier, Attempt{ctrfOutcome(a.Status), flaky.Failure{Message: c.decoder.message(a.Message), Text: c.decoder.message(a.Trace)}})
	}
	if n := len(k.Earlier); n == 0 && t.Flaky && k.Outcome == Passed {
		for range min(max(t.Retries, 1), maxAttempts) {
			k.Earlier = append(k.Earlier, Attempt{Failed, k.Failure})
		}
	} else if n > 0 && k.Failure == (flaky.Failure{}) {
		k.Failure = k.Earlier[n-1].Failure
	}
	return c.each(&k)
}

// suitesOf reads the suites around a test, the outermost first.
func suitesOf(raw json.RawMessage) []string {
	var one string
	var many []string
	if json.Unmarshal(raw, &one) == nil && one != "" {
		return strings.Split(one, " > ")
	}
	_ = json.Unmarshal(raw, &many) // neither: no suites
	return many
}

func ctrfOutcome(status string) Outcome {
	switch strings.ToLower(status) {
	case "passed":
		return Passed
	case "failed":
		return Failed
	case "skipped", "pending":
		return Skipped
	}
	return Unknown
}

// millis reads milliseconds as Bazel writes them: a number in a string.
func millis(text string) (time.Duration, bool) {
	var n int64
	if _, err := fmt.Sscan(text, &n); err != nil || n < 0 || n > 1e12 {
		return 0, false
	}
	return time.Duration(n) * time.Millisecond, true
}
