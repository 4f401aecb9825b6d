package report

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxLine bounds a line of a report that is one JSON value a line. Longer ones
// are left out.
const maxLine = 4 << 20

// lines gives each line that is not blank to a function, without its end. long
// is called in place of it for a line that is too long. ended reports whether
// the last line had an end.
func lines(r io.Reader, line func([]byte) error, long func()) (ended bool, err error) {
	in := bufio.NewReaderSize(r, 64<<10)
	var whole []byte
	tooLong := false
	for {
		piece, err := in.ReadSlice('\n')
		if len(whole)+len(piece) > maxLine {
			tooLong, whole = true, whole[:0]
		} else if !tooLong {
			whole = append(whole, piece...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		text := bytes.TrimSpace(whole)
		switch {
		case tooLong:
			long()
		case len(text) > 0:
			if err := line(text); err != nil {
				return false, err
			}
		}
		if err != nil {
			return len(whole) == 0 && !tooLong, nil
		}
		whole, tooLong = whole[:0], false
	}
}
