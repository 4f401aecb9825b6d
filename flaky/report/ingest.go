package report

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"

	"signalbox/flaky"
)

// Store is where uploads wait to be read and where they are entered.
type Store interface {
	// WaitingUpload is an upload and its body. An error that ends the job for
	// good is one that gone knows; see Ingest.
	WaitingUpload(ctx context.Context, id int64) (flaky.Upload, []byte, error)
	// EnterUpload stores what was read, and all that follows from it, in one
	// transaction. Entering an upload again does nothing.
	EnterUpload(ctx context.Context, u flaky.Upload, read flaky.Read) error
}

// Ingest reads an upload that waits, and enters it. gone tells the error of an
// upload that is no longer there, or was read: then there is nothing to do.
func Ingest(ctx context.Context, s Store, id int64, gone func(error) bool) error {
	u, body, err := s.WaitingUpload(ctx, id)
	if err != nil {
		if gone(err) {
			return nil
		}
		return fmt.Errorf("ingest upload %d: %w", id, err)
	}
	if err := s.EnterUpload(ctx, u, Read(u, body)); err != nil && !gone(err) {
		return fmt.Errorf("ingest upload %d: %w", id, err)
	}
	return nil
}

// Refused is the note of an upload of which nothing, or not all, could be read.
const Refused NoteCode = "REFUSED"

// Read reads all reports of an upload. It never fails: what cannot be read is a
// note, and what came before it counts.
func Read(u flaky.Upload, body []byte) flaky.Read {
	r := &reading{upload: u, unpacker: unpacker{MaxDecoded}, options: Options{Uploaded: u.Received}, c: NewCollector(u.Org, u.Repo, u.Variant)}
	if err := r.all(body); err != nil {
		r.notes.add(Refused, err.Error())
	}
	if r.files == 1 { // then it is the one
		r.notes = r.notes.in("")
	}
	if missing := u.Expected - r.files; missing > 0 {
		r.notes.addMany(Missing, missing, fmt.Sprintf("only %d of %d came", r.files, u.Expected))
	}
	r.c.Note(r.notes)
	tests, notes := r.c.Tests()
	read := flaky.Read{Format: string(r.format), Owners: string(r.owners), Bundle: r.facts, Tests: make([]flaky.Seen, 0, len(tests))}
	for i := range tests {
		t := &tests[i]
		if read.At.IsZero() || !t.At.IsZero() && t.At.Before(read.At) {
			read.At = t.At
		}
		result, ran := t.Result()
		read.Tests = append(read.Tests, flaky.Seen{Test: t.Test, ID: t.ID, Skipped: !ran, Result: result, Failure: t.Failure, Summary: t.Summary})
	}
	for _, n := range notes {
		read.Notes = append(read.Notes, flaky.Note{Code: string(n.Code), Count: n.Count, Text: n.String(), Incomplete: n.Incomplete()})
	}
	return read
}

// reading is the reading of one upload.
type reading struct {
	upload   flaky.Upload
	unpacker unpacker
	options  Options
	c        *Collector
	notes    Notes
	format   Format
	owners   []byte
	files    int
	facts    *flaky.BundleFacts
}

func (r *reading) all(body []byte) error {
	if r.upload.Bundle {
		return r.bundle(body)
	}
	kind, params, err := mime.ParseMediaType(r.upload.ContentType)
	if err != nil || kind != "multipart/form-data" {
		return r.file(bytes.NewReader(body), "")
	}
	content, err := r.unpacker.open(bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer content.Close()
	parts := multipart.NewReader(content, params["boundary"])
	for range maxFiles {
		part, err := parts.NextRawPart()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, ErrTooLarge), errors.Is(err, ErrDamaged):
			return err
		case err != nil:
			return fmt.Errorf("the form is cut off or damaged: %w", err)
		}
		if part.FormName() == "codeowners" {
			r.owners, err = io.ReadAll(io.LimitReader(part, maxOwners))
		} else {
			err = r.file(part, pathOf(part))
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("more than %d files", maxFiles)
}

// pathOf is the path that a file has in a form; [multipart.Part.FileName] leaves
// only the end of it, and reports are often called the same. It is shown and opens
// nothing.
func pathOf(part *multipart.Part) string {
	_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil {
		return ""
	}
	return params["filename"]
}

// file reads one report, which may be compressed itself.
func (r *reading) file(src io.Reader, name string) error {
	content, err := r.unpacker.open(src)
	if err != nil {
		return err
	}
	defer content.Close()
	r.files++
	r.c.NextFile()
	format, notes, err := Scan(content, r.options, r.c.Add)
	r.format = format
	r.notes.merge(notes.in(name))
	return err
}

func (r *reading) bundle(body []byte) error {
	content, err := r.unpacker.open(bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer content.Close()
	reports := sha256.New()
	b, err := ScanBundle(content, r.options, func(m Meta) error {
		r.facts = &flaky.BundleFacts{Sent: m.sent(r.upload.Sent)}
		r.c.Variant = r.facts.Variant
		return nil
	}, reports, func(string) { r.files++; r.c.NextFile() }, r.c.Add)
	if r.facts != nil {
		fmt.Fprintf(reports, "\x00%s\x00%d\x00%s", r.facts.Job, r.facts.Attempt, r.facts.Variant)
		reports.Sum(r.facts.Reports[:0])
	}
	r.format, r.owners = "bundle", b.Owners
	r.notes.merge(b.Notes)
	return err
}
