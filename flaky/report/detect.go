package report

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Limits of what is uploaded.
const (
	// MaxCompressed is how many bytes an upload may have.
	MaxCompressed = 20 << 20
	// MaxDecoded is how many bytes it may have when it is decompressed.
	MaxDecoded = 512 << 20
	// MaxRatio is how many bytes one byte of an upload may become.
	MaxRatio = 200
	// ratioFrom is where the ratio begins to count: a small report may repeat
	// itself a lot.
	ratioFrom = 8 << 20
	// maxWindow bounds the memory that decompressing takes.
	maxWindow = 64 << 20
)

// Why an upload is refused.
var (
	ErrTooLarge = errors.New("the upload is larger than 20 MiB compressed or 512 MiB decompressed, or one byte of it becomes more than 200")
	ErrDamaged  = errors.New("the upload cannot be decompressed")
)

// unpacker undoes the compression of an upload and of the files in it. What it
// decompresses counts towards one limit, however often it was compressed.
type unpacker struct {
	left int64 // bytes that may still come out of it
}

// open undoes gzip and zstd, whichever the first bytes show, and leaves anything
// else as it is: it was bounded where it came from. Reading gives [ErrTooLarge] where a
// limit is passed and [ErrDamaged] where the compression is not valid.
func (d *unpacker) open(r io.Reader) (io.ReadCloser, error) {
	src := &counter{r: r}
	in := bufio.NewReaderSize(src, 64<<10)
	magic, _ := in.Peek(4) // shorter ones are not compressed
	out := &bounded{unpacker: d, src: src, close: func() {}}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, errors.Join(ErrDamaged, err)
		}
		out.r = z
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxWindow), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, errors.Join(ErrDamaged, err)
		}
		out.r, out.close = z, z.Close
	default:
		return io.NopCloser(in), nil
	}
	return out, nil
}

// counter counts what is read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// bounded is what is decompressed, and ends where a limit is passed.
type bounded struct {
	*unpacker
	r     io.Reader
	src   *counter
	n     int64
	close func()
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.n += int64(n)
	b.left -= int64(n)
	switch {
	case b.src.n > MaxCompressed, b.left < 0, b.n > ratioFrom && b.n > MaxRatio*b.src.n:
		return 0, ErrTooLarge
	case errors.Is(err, io.ErrUnexpectedEOF):
		return n, io.EOF // a file that is cut off is a report that is cut off: what came is read
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, ErrTooLarge):
		return n, errors.Join(ErrDamaged, err)
	}
	return n, err
}

func (b *bounded) Close() error { b.close(); return nil }

// Detect tells the format of a report from its first bytes. What it does not
// know it takes for JUnit, whose scanner says what is wrong with it.
func Detect(head []byte) Format {
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	if !bytes.HasPrefix(text, []byte("{")) {
		// What the go command prints before its first event.
		for _, line := range bytes.Split(text, []byte("\n")) {
			if bytes.HasPrefix(line, []byte(`{"`)) && bytes.Contains(line, []byte(`"Action":`)) {
				return GoTest
			}
		}
		return JUnit
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	has := func(in []byte, word string) bool { return bytes.Contains(in, []byte(word)) }
	switch {
	case has(line, `"Action":`):
		return GoTest
	case has(text, `"reportFormat"`), has(text, `"results"`) && has(text, `"tool"`):
		return CTRF
	case has(line, `"id":`) || has(text, `"testResult"`):
		return BEP
	}
	return CTRF
}

// Scan reads a report of any format but a bundle.
func Scan(r io.Reader, o Options, each func(*Case) error) (Format, Notes, error) {
	in := bufio.NewReaderSize(r, 4096)
	head, _ := in.Peek(4096) // an error comes again
	format := Detect(head)
	var notes Notes
	var err error
	switch format {
	case GoTest:
		notes, err = ScanGoTest(in, o, each)
	case CTRF:
		notes, err = ScanCTRF(in, o, each)
	case BEP:
		notes, err = ScanBEP(in, o, false, each)
	default:
		notes, err = ScanJUnit(in, o, each)
	}
	if errors.Is(err, ErrDamaged) { // what came before counts
		notes.add(Truncated, "")
		err = nil
	}
	return format, notes, err
}
