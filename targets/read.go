package targets

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// maxName bounds the name of one target, in bytes.
const maxName = 64 << 10

// Read reads names of targets as build tools print them: one in a line (bazel
// query, go list, nx affected), an array of JSON (nx show projects --json), or
// an object of it with an array "projects". What comes is read to its end, also
// when it is too much to be kept.
func Read(from io.Reader, to *Set) error {
	r := bufio.NewReaderSize(from, maxName)
	switch first, err := firstByte(r); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("read targets: %w", err)
	case first == '[' || first == '{':
		return readJSON(r, to)
	}
	for n := 1; ; n++ {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("read targets: line %d is longer than %d KiB", n, maxName>>10)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read targets: line %d: %w", n, err)
		}
		if name := strings.TrimSpace(string(line)); name != "" {
			if err := named(name, to); err != nil {
				return fmt.Errorf("read targets: line %d: %w", n, err)
			}
		}
		if err != nil {
			return nil
		}
	}
}

// firstByte is the first that is no space, which is left in r.
func firstByte(r *bufio.Reader) (byte, error) {
	for {
		c, _, err := r.ReadRune()
		if err != nil {
			return 0, err
		}
		if c != '\ufeff' && !unicode.IsSpace(c) {
			if err := r.UnreadRune(); err != nil {
				return 0, err
			}
			b, err := r.Peek(1)
			return b[0], err
		}
	}
}

// named adds a name, if it is one.
func named(name string, to *Set) error {
	if name == "" || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\ufffd' }) {
		return fmt.Errorf("%.100q is no name of a target", name)
	}
	to.Add(name, "")
	return nil
}

// readJSON reads an array of names, or the one called projects in an object.
func readJSON(r io.Reader, to *Set) error {
	d := json.NewDecoder(r)
	err := eachName(d, func(name string) error { return named(name, to) })
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("something follows the list")
		}
	}
	if err != nil {
		return fmt.Errorf("read targets: %w; a list of names is wanted, as nx show projects --json prints it", err)
	}
	return nil
}

func eachName(d *json.Decoder, each func(string) error) error {
	open, err := d.Token()
	if err != nil {
		return err
	}
	if open == json.Delim('{') {
		found := false
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return err
			}
			if key != "projects" {
				if err := d.Decode(new(json.RawMessage)); err != nil {
					return err
				}
				continue
			}
			found = true
			if err := eachName(d, each); err != nil {
				return err
			}
		}
		if _, err := d.Token(); err != nil {
			return err
		}
		if !found {
			return errors.New("there is no list called projects")
		}
		return nil
	}
	if open != json.Delim('[') {
		return fmt.Errorf("%v stands where a list is expected", open)
	}
	for d.More() {
		var name string
		if err := d.Decode(&name); err != nil {
			return err
		}
		if err := each(name); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}
