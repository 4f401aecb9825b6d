package report

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"
)

// The formats that are not JUnit, found by their first bytes. gotest.json is
// what go test -json printed for four packages: one with a failure, one that
// does not compile, one that panics while a test waits, one from the cache.
func TestOtherFormats(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/other/*.json")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			t.Parallel()
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			read := func(size int) string {
				var format Format
				text := told(t, func(each func(*Case) error) (notes Notes, err error) {
					format, notes, err = Scan(&slow{content, size}, Options{Uploaded: uploaded}, each)
					return notes, err
				})
				return fmt.Sprintf("%s\n%s", format, text)
			}
			whole := read(len(content) + 1)
			golden(t, strings.TrimSuffix(file, ".json")+".want", whole)
			if got := read(100); got != whole {
				t.Errorf("in pieces:\n%s", got)
			}
		})
	}
}

func FuzzOtherFormats(f *testing.F) {
	files, _ := filepath.Glob("testdata/other/*.json")
	for _, file := range files {
		if content, err := os.ReadFile(file); err == nil {
			f.Add(content)
		}
	}
	f.Add(binaryReport(true))
	f.Fuzz(func(t *testing.T, content []byte) {
		o := Options{Uploaded: uploaded}
		for _, scan := range []func(func(*Case) error) (Notes, error){
			func(each func(*Case) error) (Notes, error) {
				_, n, err := Scan(bytes.NewReader(content), o, each)
				return n, err
			},
			func(each func(*Case) error) (Notes, error) { return ScanGoTest(bytes.NewReader(content), o, each) },
			func(each func(*Case) error) (Notes, error) { return ScanCTRF(bytes.NewReader(content), o, each) },
			func(each func(*Case) error) (Notes, error) { return ScanBEP(bytes.NewReader(content), o, true, each) },
			func(each func(*Case) error) (Notes, error) { return ScanBinary(bytes.NewReader(content), o, each) },
		} {
			if text := told(t, scan); strings.ContainsAny(text, "\x00\x1b") {
				t.Errorf("%q gives %q", content, text)
			}
		}
	})
}

// message makes a message of protocol buffers.
func message(fields ...any) []byte {
	var b []byte
	for i := 0; i < len(fields); i += 2 {
		number := protowire.Number(fields[i].(int))
		switch v := fields[i+1].(type) {
		case string:
			b = protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), v)
		case []byte:
			b = protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v)
		case int:
			b = protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(v))
		}
	}
	return b
}

// binaryReport is what the analytics CLI's plug-ins write: a result, or in newer
// versions a list of them.
func binaryReport(list bool) []byte {
	at := func(seconds int) []byte { return message(1, seconds, 2, 500_000_000) }
	result := message(
		1, message(1, "a6e84936-3ee9-57d5-b041-ae124896f654", 2, "is empty", 3, "Cart", 4, "cart_spec.rb", 5, "cart", 6, 7, 7, 1, 8, 1, 9, at(1772445600), 10, at(1772445602)),
		1, message(2, "totals", 3, "Cart", 5, "cart", 7, 2, 8, 0, 11, "expected 3\x00, got 4", 13, message(1, "@team")),
		1, message(2, "totals", 3, "Cart", 5, "cart", 7, 1, 8, 1),
		1, message(2, "pending", 7, 3), 1, message(2, " ", 7, 1),
		2, message(1, "1.2", 2, "rspec", 4, "ruby-3.4"))
	if list {
		return message(1, result)
	}
	return result
}

func TestBinaryReports(t *testing.T) {
	t.Parallel()
	read := func(content []byte) string {
		return told(t, func(each func(*Case) error) (Notes, error) {
			return ScanBinary(bytes.NewReader(content), Options{Uploaded: uploaded}, each)
		})
	}
	golden(t, "testdata/other/binary.want", read(binaryReport(false)))
	if !*rewrite && !strings.Contains(read(binaryReport(true)), `passed "is empty"`) {
		t.Errorf("a list of results gives %s", read(binaryReport(true)))
	}
	for _, broken := range [][]byte{{0xff}, binaryReport(false)[:100], []byte("text"), message(1, message(1, message(1, "not a run")))} {
		if got := read(broken); !strings.Contains(got, "MALFORMED") {
			t.Errorf("%q gives %q", broken, got)
		}
	}
}

// file is one file of a bundle.
type file struct {
	name, content string
	kind          byte
}

func tarOf(files ...file) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Typeflag: f.kind, Size: int64(len(f.content)), Mode: 0o644, ModTime: time.Unix(1772445600, 0)}
		if f.kind == tar.TypeSymlink || f.kind == tar.TypeLink {
			h.Linkname, h.Size = "/etc/passwd", 0
		}
		if err := w.WriteHeader(h); err != nil {
			panic(err)
		}
		if h.Size > 0 {
			_, _ = io.WriteString(w, f.content)
		}
	}
	_ = w.Close()
	return b.Bytes()
}

const bundleMeta = `{"version":"1","cli_version":"cargo=0.9","org":"acme","schema":"V0_6_3","variant":"linux",
"repo":{"repo":{"host":"github.com","owner":"acme","name":"shop"},"repo_url":"https://github.com/acme/shop","repo_head_sha":"0123456789012345678901234567890123456789","repo_head_branch":"main","repo_head_commit_epoch":1772445600},
"tags":[{"key":"a","value":"b"}],"envs":{"GITHUB_ACTIONS":"true","GITHUB_RUN_ID":"7","SECRET_TOKEN":"hush"},
"file_sets":[{"file_set_type":"Junit","glob":"*.xml","files":[{"original_path":"/x/a.xml","original_path_rel":"a.xml","path":"junit/0","owners":["@team"]},{"original_path":"/x/b.xml","path":"junit/1"}]}]}`

const oneCase = `<testsuite name="s"><testcase classname="c" name="a"/></testsuite>`

func TestBundles(t *testing.T) {
	t.Parallel()
	meta := file{"meta.json", bundleMeta, tar.TypeReg}
	plain := file{"meta.json", `{"org":"acme","file_sets":[]}`, tar.TypeReg}
	junit := func(n int) file { return file{fmt.Sprintf("junit/%d", n), oneCase, tar.TypeReg} }
	owners := file{"CODEOWNERS", "* @acme/all\n", tar.TypeReg}
	binary := file{"internal.bin", string(binaryReport(false)), tar.TypeReg}
	events := file{"bazel_bep.json", `{"id":{"testResult":{"label":"//a:b"}},"testResult":{"status":"PASSED"}}`, tar.TypeReg}
	for name, c := range map[string]struct {
		files []file
		want  string // files read, cases, notes
		wrong string
	}{
		"whole":                        {[]file{meta, binary, junit(0), junit(1), owners, events}, "[a.xml /x/b.xml] 2 []", ""},
		"a report is missing":          {[]file{meta, junit(1)}, "[/x/b.xml] 1 [REPORTS_MISSING]", ""},
		"no JUnit, a plug-in's report": {[]file{plain, binary, events}, "[internal.bin] 4 [NAMELESS_CASES BAD_CHARACTERS]", ""},
		"Bazel's events alone":         {[]file{plain, events}, "[bazel_bep.json] 1 []", ""},
		"nothing":                      {[]file{plain}, "[] 0 [EMPTY]", ""},
		"files of newer versions":      {[]file{plain, junit(0), {"traces/x.zip", "PK", tar.TypeReg}, {"junit/x", "", tar.TypeReg}}, "[junit/0] 1 [UNKNOWN_FILE]", ""},
		"a folder":                     {[]file{plain, {"junit/", "", tar.TypeDir}, junit(0)}, "[junit/0] 1 []", ""},
		"meta.json is not first":       {[]file{junit(0), meta}, "", "not its first"},
		"meta.json is not JSON":        {[]file{{"meta.json", "{", tar.TypeReg}}, "", "meta.json"},
		"a link":                       {[]file{plain, {"junit/0", "", tar.TypeSymlink}}, "", "no plain file"},
		"a hard link":                  {[]file{plain, {"junit/0", "", tar.TypeLink}}, "", "no plain file"},
		"a device":                     {[]file{plain, {"junit/0", "", tar.TypeChar}}, "", "no plain file"},
		"a path outside":               {[]file{plain, {"../../etc/passwd", "x", tar.TypeReg}}, "", "no plain file"},
		"an absolute path":             {[]file{plain, {"/etc/passwd", "x", tar.TypeReg}}, "", "no plain file"},
		"a path that is not clean":     {[]file{plain, {"junit/../0", "x", tar.TypeReg}}, "", "no plain file"},
	} {
		for _, cut := range []int{0, 900} {
			content := tarOf(c.files...)
			if cut > 0 { // in the last file: its end is missing
				if c.wrong != "" || name != "whole" {
					continue
				}
				content = content[:len(content)-1024-512-100]
			}
			got, b, err := readBundle(content)
			switch {
			case c.wrong != "":
				if !errors.Is(err, ErrBundle) || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("%s: %v, want %q", name, err, c.wrong)
				}
			case cut > 0:
				if err != nil || !b.Notes.Has(Truncated) && len(b.Notes.Problems()) == 0 && got == c.want {
					t.Errorf("%s, cut off: %s %v", name, got, err)
				}
			case err != nil || got != c.want:
				t.Errorf("%s: %s, %v\nwant %s", name, got, err, c.want)
			}
			if name == "whole" && cut == 0 && (string(b.Owners) != "* @acme/all\n" || b.Meta.Repo.Repo.Owner != "acme" || b.Meta.Variant != "linux" || len(b.Meta.Envs) != 2) {
				t.Errorf("%s: %+v %q", name, b.Meta, b.Owners)
			}
		}
	}
}

func readBundle(content []byte) (string, Bundle, error) {
	names, cases := []string{}, 0
	b, err := ScanBundle(bytes.NewReader(content), Options{Uploaded: uploaded}, func(Meta) error { return nil }, io.Discard,
		func(name string) { names = append(names, name) }, func(*Case) error { cases++; return nil })
	codes := []NoteCode{}
	for _, n := range b.Notes {
		codes = append(codes, n.Code)
	}
	return fmt.Sprint(names, cases, codes), b, err
}

func FuzzBundle(f *testing.F) {
	f.Add(tarOf(file{"meta.json", bundleMeta, tar.TypeReg}, file{"junit/0", oneCase, tar.TypeReg}, file{"CODEOWNERS", "*", tar.TypeReg}))
	f.Add(tarOf(file{"meta.json", "{}", tar.TypeReg}, file{"internal.bin", string(binaryReport(true)), tar.TypeReg}))
	f.Fuzz(func(t *testing.T, content []byte) { _, _, _ = readBundle(content) })
}

func gzipped(content []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(content)
	_ = w.Close()
	return b.Bytes()
}

func zstandard(content []byte) []byte {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	return w.EncodeAll(content, nil)
}

// A report of more than what an upload may have comes compressed, and is read whole.
func TestALongReportIsReadWhole(t *testing.T) {
	t.Parallel()
	var xml strings.Builder
	const cases = 2000
	for i := range cases {
		fmt.Fprintf(&xml, `<testcase classname="c" name="t%d"><system-out>`, i)
		for line := range 500 {
			fmt.Fprintf(&xml, "line %d that a test printed\n", i*line)
		}
		xml.WriteString(`</system-out></testcase>`)
	}
	if xml.Len() < MaxCompressed {
		t.Fatalf("only %d bytes", xml.Len())
	}
	read := Read(formOf(t, [2]string{"long.xml", `<testsuite name="s">` + xml.String() + `</testsuite>`}))
	if len(read.Tests) != cases || len(read.Notes) != 0 {
		t.Errorf("%d of %d tests, %v", len(read.Tests), cases, read.Notes)
	}
}

// What the files of an upload become is limited together.
func TestManyFilesOfAnUploadAreLimitedTogether(t *testing.T) {
	t.Parallel()
	file := gzipped([]byte(strings.Repeat(oneCase, 1000)))
	d := unpacker{int64(2500 * len(oneCase))}
	for i, want := range []error{nil, nil, ErrTooLarge} {
		r, err := d.open(bytes.NewReader(file))
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if !errors.Is(err, want) {
			t.Errorf("file %d: %v, want %v", i, err, want)
		}
	}
}

func TestDecompress(t *testing.T) {
	t.Parallel()
	plain := []byte(strings.Repeat(oneCase, 100))
	bomb := make([]byte, ratioFrom+1<<20)
	noise := make([]byte, MaxCompressed+1)
	rand.NewChaCha8([32]byte{}).Read(noise)
	broken := zstandard(plain)
	broken[len(broken)/2] ^= 0xff
	for name, c := range map[string]struct {
		in   []byte
		want int // bytes
		err  error
	}{
		"plain": {plain, len(plain), nil}, "gzip": {gzipped(plain), len(plain), nil}, "zstd": {zstandard(plain), len(plain), nil},
		"empty": {nil, 0, nil}, "short": {[]byte("<a"), 2, nil},
		"gzip, cut off":         {gzipped(plain)[:60], -1, nil},
		"a bomb in gzip":        {gzipped(bomb), -1, ErrTooLarge},
		"a bomb in zstd":        {zstandard(bomb), -1, ErrTooLarge},
		"too large":             {gzipped(noise), -1, ErrTooLarge},
		"large and plain":       {noise, len(noise), nil},
		"damaged":               {broken, -1, ErrDamaged},
		"the magic of gzip":     {[]byte("\x1f\x8bnot at all, really"), -1, ErrDamaged},
		"a small one, and good": {gzipped(bytes.Repeat([]byte("x"), 1<<20)), 1 << 20, nil},
	} {
		n, err := 0, error(nil)
		d := unpacker{MaxDecoded}
		r, err := d.open(bytes.NewReader(c.in))
		if err == nil {
			var all []byte
			all, err = io.ReadAll(r)
			n = len(all)
			_ = r.Close()
		}
		if !errors.Is(err, c.err) || c.want >= 0 && n != c.want {
			t.Errorf("%s: %d bytes, %v; want %d, %v", name, n, err, c.want, c.err)
		}
	}
}
