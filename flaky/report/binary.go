package report

import (
	"errors"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxBinary bounds an internal.bin, which is held at once.
const maxBinary = 64 << 20

var errWire = errors.New("not a message of protocol buffers")

// ScanBinary reads an internal.bin, in which the plug-ins of the analytics CLI
// for single test runners write their results: the protocol buffers message
// test_context.test_run.TestResult, or a TestReport, which is a list of those.
func ScanBinary(r io.Reader, o Options, each func(*Case) error) (Notes, error) {
	b := &binary{options: o, each: each}
	content, err := io.ReadAll(io.LimitReader(r, maxBinary+1))
	switch {
	case err != nil:
		return nil, err
	case len(content) > maxBinary:
		b.notes.add(Malformed, "internal.bin has more than 64 MiB")
		return b.notes, nil
	case len(content) == 0:
		b.notes.add(Empty, "")
		return b.notes, nil
	}
	if err := b.results(content); errors.Is(err, errWire) {
		b.notes.add(Malformed, "internal.bin is "+errWire.Error())
	} else if err != nil {
		return b.notes, err
	}
	if b.decoder.replaced > 0 {
		b.notes.addMany(BadCharacters, b.decoder.replaced, "")
	}
	return b.notes, nil
}

type binary struct {
	options Options
	each    func(*Case) error
	decoder decoder
	notes   Notes
}

// field is one field of a message: bytes or a number.
type field struct {
	number protowire.Number
	bytes  []byte
	value  uint64
}

// fields calls a function with each field of a message.
func fields(message []byte, each func(field) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errWire
		}
		message = message[n:]
		f := field{number: number}
		switch kind {
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return errWire
		}
		message = message[n:]
		if err := each(f); err != nil {
			return err
		}
	}
	return nil
}

// results reads a TestResult, or a list of them. The two are told apart by what
// is in their first field: a test run has fields of higher numbers than a
// result has.
func (b *binary) results(message []byte) error {
	variant := ""
	var runs [][]byte
	err := fields(message, func(f field) error {
		switch f.number {
		case 1:
			runs = append(runs, f.bytes)
		case 2:
			return fields(f.bytes, func(m field) error {
				if m.number == 4 {
					variant = b.decoder.attribute(m.bytes)
				}
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, run := range runs {
		is, err := isRun(run)
		switch {
		case err != nil:
			return err
		case is:
			err = b.run(run, variant)
		default:
			err = b.list(run, variant)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// list reads a TestResult within a TestReport.
func (b *binary) list(message []byte, variant string) error {
	return fields(message, func(f field) error {
		if f.number != 1 {
			return nil
		}
		if is, err := isRun(f.bytes); err != nil || !is {
			return errWire
		}
		return b.run(f.bytes, variant)
	})
}

func isRun(message []byte) (bool, error) {
	higher := false
	err := fields(message, func(f field) error {
		higher = higher || f.number > 2
		return nil
	})
	return higher, err
}

// run reads a TestCaseRun.
func (b *binary) run(message []byte, variant string) error {
	c := Case{Seconds: -1, Variant: variant, Reruns: Attempts}
	var started, finished time.Time
	err := fields(message, func(f field) error {
		var err error
		switch f.number {
		case 1:
			c.Given = b.text(f)
		case 2:
			c.Name = b.text(f)
		case 3:
			c.Classname = b.text(f)
		case 4:
			c.File = b.text(f)
		case 5:
			c.Parent = b.text(f)
		case 7:
			c.Outcome = binaryOutcome(f.value)
		case 8:
			c.Attempt = int(min(f.value, 1000))
		case 9:
			started, err = timestamp(f.bytes)
		case 10:
			finished, err = timestamp(f.bytes)
		case 11:
			c.Failure.Message = b.decoder.message(b.decoder.decode(f.bytes[:min(len(f.bytes), 2*failureEnds)], false))
		}
		return err
	})
	if err != nil {
		return err
	}
	if strings.TrimSpace(c.Name) == "" {
		b.notes.add(Nameless, "")
		return nil
	}
	if !started.IsZero() {
		c.At = b.options.plausible(started.Format(time.RFC3339Nano), &b.notes)
		if d := finished.Sub(started); !finished.IsZero() && d >= 0 {
			c.Seconds = d.Seconds()
		}
	}
	return b.each(&c)
}

func (b *binary) text(f field) string { return b.decoder.finish(b.decoder.decode(f.bytes, false)) }

func binaryOutcome(status uint64) Outcome {
	switch status {
	case 1:
		return Passed
	case 2:
		return Failed
	case 3:
		return Skipped
	}
	return Unknown
}

// timestamp reads a google.protobuf.Timestamp.
func timestamp(message []byte) (time.Time, error) {
	var seconds, nanos int64
	err := fields(message, func(f field) error {
		switch f.number {
		case 1:
			seconds = int64(f.value)
		case 2:
			nanos = int64(f.value)
		}
		return nil
	})
	if err != nil || seconds == 0 || seconds < 0 || seconds > 1<<40 {
		return time.Time{}, err
	}
	return time.Unix(seconds, nanos%1e9).UTC(), nil
}
