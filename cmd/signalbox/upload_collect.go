package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"signalbox/account"
	"signalbox/flaky"
	"signalbox/flaky/report"
)

// collect finds the reports, packs them into one body and reads them. missing
// has a sentence for each pattern without a file. What was expected and is not
// there is said to the service, too.
func (o *outcome) collect(u *uploadCommand, sent *flaky.Sent) (body []byte, missing []string, err error) {
	files, missing, err := findReports(u.Reports)
	if err != nil {
		return nil, missing, err
	}
	o.files = len(files)
	sent.Expected = max(u.Expect, len(files)+len(missing))
	if body, sent.ContentType, err = pack(files); err != nil {
		return nil, missing, err
	}
	o.read = report.Read(flaky.Upload{
		Org: account.Slug(sent.Owner), Repo: sent.Host + "/" + sent.Owner + "/" + sent.Name, Received: time.Now(), Sent: *sent,
	}, body)
	return body, missing, nil
}

// ownersFiles are where a repository says who owns its files.
var ownersFiles = []string{".github/CODEOWNERS", ".gitlab/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"}

// findReports finds the files of names and patterns, each file once, in order.
func findReports(patterns []string) (files, missing []string, err error) {
	for _, p := range patterns {
		found := []string{p}
		info, err := os.Stat(p)
		if err == nil && info.IsDir() {
			missing = append(missing, p+" is a folder: give its reports, as in '"+filepath.ToSlash(filepath.Join(p, "**", "*.xml"))+"'")
			continue
		}
		if err != nil {
			if found, err = doublestar.FilepathGlob(p, doublestar.WithFilesOnly(), doublestar.WithNoFollow()); err != nil {
				return nil, missing, fmt.Errorf("%s is no pattern: %w", p, err)
			}
		}
		if len(found) == 0 {
			missing = append(missing, "no report matches "+p)
		}
		for i := range found {
			found[i] = filepath.Clean(found[i])
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	return slices.Compact(files), missing, nil
}

// pack puts files, and the repository's CODEOWNERS, into one form, compressed.
// The same files make the same bytes, so that sending them again is no second
// upload.
func pack(files []string) (body []byte, contentType string, err error) {
	parts := make([]formFile, 0, len(files)+1)
	for _, path := range files {
		parts = append(parts, formFile{"report", path})
	}
	for _, path := range ownersFiles {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			parts = append(parts, formFile{"codeowners", path})
			break
		}
	}
	content := sha256.New()
	if err := copyAll(parts, func(formFile) (io.Writer, error) { return content, nil }); err != nil {
		return nil, "", err
	}
	var b bytes.Buffer
	compressed := gzip.NewWriter(&b)
	form := multipart.NewWriter(compressed)
	if err := form.SetBoundary(hex.EncodeToString(content.Sum(nil))); err != nil { // nobody can write a file that contains its own hash
		return nil, "", err
	}
	if err := copyAll(parts, func(p formFile) (io.Writer, error) { return form.CreateFormFile(p.field, filepath.ToSlash(p.path)) }); err != nil {
		return nil, "", err
	}
	if err := errors.Join(form.Close(), compressed.Close()); err != nil {
		return nil, "", err
	}
	if b.Len() > report.MaxCompressed {
		return nil, "", report.ErrTooLarge
	}
	return b.Bytes(), form.FormDataContentType(), nil
}

// formFile is a file in a form.
type formFile struct{ field, path string }

// copyAll copies files one after the other, up to what an upload may have.
func copyAll(parts []formFile, to func(formFile) (io.Writer, error)) error {
	left := int64(report.MaxDecoded)
	for _, p := range parts {
		f, err := os.Open(p.path)
		if err != nil {
			return fmt.Errorf("read a report: %w", err)
		}
		w, err := to(p)
		if err == nil {
			var n int64
			n, err = io.Copy(w, io.LimitReader(f, left+1))
			left -= n
		}
		_ = f.Close()
		switch {
		case err != nil:
			return fmt.Errorf("read a report: %w", err)
		case left < 0:
			return report.ErrTooLarge
		}
	}
	return nil
}

// printable is text from a report for one line of a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
}
