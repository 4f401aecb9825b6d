package db_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"signalbox/db"
	"signalbox/flaky"
	testreport "signalbox/flaky/report"
	"signalbox/queue"
)

// bundleOf packs a bundle as the analytics CLI does: files are name, content,
// name, content.
func bundleOf(t *testing.T, files ...string) []byte {
	t.Helper()
	var packed bytes.Buffer
	zip, err := zstd.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(zip)
	for i := 0; i < len(files); i += 2 {
		err := archive.WriteHeader(&tar.Header{Name: files[i], Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(files[i+1]))})
		if _, problem := archive.Write([]byte(files[i+1])); err != nil || problem != nil {
			t.Fatal(err, problem)
		}
	}
	if err := errors.Join(archive.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

const (
	mainMeta = `{"bundle_upload_id":"%s","repo":{"repo_head_sha":"` + mainHead + `","repo_head_branch":"refs/heads/main"},"envs":{"SECRET":"x","GITHUB_ACTIONS":"true",
		"GITHUB_SHA":"` + mainHead + `","GITHUB_REF_NAME":"main","GITHUB_RUN_ID":"7","GITHUB_JOB":"test","GITHUB_RUN_ATTEMPT":"%d"}}`
	mainHead   = "00000000000000000000000000000000000000a1"
	twoResults = `<testsuite name="s"><testcase name="a" file="a.go"/><testcase name="b" file="b.go"><failure type="E" message="no answer after 3s"/></testcase></testsuite>`
)

// putBundle puts a bundle at an address and reads it.
func (w *world) putBundle(address uuid.UUID, trusted bool, body []byte) (int64, error) {
	w.t.Helper()
	u := flaky.Upload{Repository: int64(w.repo.ID), Received: epoch, Sent: flaky.Sent{Bundle: true, Trusted: trusted}}
	id, fresh, err := w.AddBundle(w.t.Context(), address, u, sha256.Sum256(body), body)
	if err == nil && fresh {
		w.must(testreport.Ingest(w.t.Context(), w.DB, id, func(err error) bool { return errors.Is(err, queue.ErrNotFound) }))
	}
	return id, err
}

// A bundle is what it says about itself, once it was read. The same at the same
// address is fine, anything else there is not; and the same reports in another
// wrapping, as after a retry of the client, count once. Another attempt of the
// job is another run.
func TestBundles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address := uuid.New()
	body := bundleOf(t, "meta.json", fmt.Sprintf(mainMeta, "one", 1), "junit/0", twoResults, "CODEOWNERS", "* @ann")
	first, err := w.putBundle(address, true, body)
	w.must(err)
	if again, err := w.putBundle(address, true, body); err != nil || again != first {
		t.Errorf("the same again: %d %v, want %d", again, err, first)
	}
	if _, err := w.putBundle(address, true, append([]byte{1}, body...)); !errors.Is(err, queue.ErrExists) {
		t.Errorf("something else: %v", err)
	}
	d, err := w.TestUpload(t.Context(), w.repo.ID, first)
	w.must(err)
	if d.Kind != flaky.Stable || d.Commit != mainHead || d.Job != "7/test" || d.Attempt != 1 || d.Check != "test" || d.Tests != 2 || d.Failed != 1 || !d.Complete {
		t.Errorf("the upload: %+v", d)
	}
	if got := w.column(`SELECT commit || ' ' || (sent::text LIKE '%SECRET%') FROM test_uploads`); got != mainHead+" false" {
		t.Errorf("stored: %s", got)
	}
	if got := w.column(`SELECT name || ':' || array_to_string(codeowners, ',') FROM test_cases ORDER BY name`); got != "a:@ann, b:@ann" {
		t.Errorf("owners: %s", got)
	}
	second, err := w.putBundle(uuid.New(), true, bundleOf(t, "meta.json", fmt.Sprintf(mainMeta, "two", 1), "junit/0", twoResults))
	w.must(err)
	if d, err := w.TestUpload(t.Context(), w.repo.ID, second); err != nil || d.Tests != 0 || len(d.Notes) != 1 || d.Notes[0].Code != "UPLOADED_BEFORE" {
		t.Errorf("the same reports again: %+v %v", d, err)
	}
	third, err := w.putBundle(uuid.New(), true, bundleOf(t, "meta.json", fmt.Sprintf(mainMeta, "three", 2), "junit/0", twoResults))
	w.must(err)
	if d, err := w.TestUpload(t.Context(), w.repo.ID, third); err != nil || d.Tests != 2 || d.Attempt != 2 {
		t.Errorf("another attempt: %+v %v", d, err)
	}
	if got := w.column(`SELECT count(*)::text FROM test_failures`); got != "2" {
		t.Errorf("%s failures, want 2", got)
	}
	w.must(w.KeepTests(t.Context(), epoch.AddDate(0, 0, 3)))
	if got := w.column(`SELECT count(*)::text FROM test_bundles`); got != "0" {
		t.Errorf("%s addresses are kept", got)
	}
}

// What comes without a token is of a pull request, whatever it says, and proves
// nothing. What is no bundle at all is kept with a note.
func TestBundlesOfStrangers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	again := `<testsuite name="s"><testcase name="a" file="a.go"><flakyFailure message="x"/></testcase></testsuite>`
	for attempt := range 3 {
		id, err := w.putBundle(uuid.New(), false, bundleOf(t, "meta.json", fmt.Sprintf(mainMeta, "x", attempt+1), "junit/0", again))
		w.must(err)
		d, err := w.TestUpload(t.Context(), w.repo.ID, id)
		if err != nil || d.Kind != flaky.PullRequest || !d.Fork || d.Trusted || d.Failed != 1 {
			t.Errorf("a stranger's: %+v %v", d, err)
		}
	}
	if got := w.column(`SELECT score || ' ' || (SELECT count(*) FROM test_evidence) FROM test_cases`); got != "0 0" {
		t.Errorf("score and evidence: %s", got)
	}
	for name, body := range map[string][]byte{
		"no archive": []byte("hello"), "no meta.json": bundleOf(t, "junit/0", twoResults), "a path outside": bundleOf(t, "meta.json", "{}", "../junit/0", twoResults),
	} {
		id, err := w.putBundle(uuid.New(), true, body)
		w.must(err)
		if d, err := w.TestUpload(t.Context(), w.repo.ID, id); err != nil || d.Complete || d.Tests != 0 || len(d.Notes) == 0 {
			t.Errorf("%s: %+v %v", name, d, err)
		}
	}
}

// What a client asks about its failures: by the words of their messages or
// their texts, which evidence has or has not shown before.
func TestWhichFailuresAreExcused(t *testing.T) {
	t.Parallel()
	clock := epoch
	w := newWorld(t, func(c *db.Config) { c.Now = func() time.Time { return clock } })
	ctx := t.Context()
	flake := readOf("a~ b~ c")
	for i := range flake.Tests[:2] {
		s := &flake.Tests[i]
		s.Failure = flaky.Failure{Type: "TimeoutError", Message: "no answer after 3s", Text: "at line 7\n  caused by"}
		s.Fingerprint, s.Summary = flaky.Describe(s.Failure)
	}
	for i := range 3 {
		clock = epoch.Add(time.Duration(13*i) * time.Hour)
		u := flaky.Upload{Repository: int64(w.repo.ID), Received: clock, Sent: flaky.Sent{Trusted: true, Facts: flaky.Facts{Commit: fmt.Sprint(i), Branch: "main"}}}
		id, _, err := w.AddUpload(ctx, u, [32]byte{byte(i)}, []byte("x"))
		w.must(err)
		u.ID = id
		w.must(w.EnterUpload(ctx, u, flake))
	}
	if on, err := w.QuarantineOn(ctx, w.repo.ID); err != nil || on {
		t.Errorf("quarantine is on by itself: %v", err)
	}
	w.must(w.SetAutomatic(ctx, w.repo.ID, true, "ann", clock))
	_, err := w.SetQuarantine(ctx, w.repo.ID, testID("c"), flaky.Override{Setting: flaky.Always, Owner: "ann", Reason: "x", Expires: clock.Add(time.Hour)}, clock)
	w.must(err)
	_, err = w.SetQuarantine(ctx, w.repo.ID, testID("b"), flaky.Override{Setting: flaky.Never}, clock)
	w.must(err)
	if on, err := w.QuarantineOn(ctx, w.repo.ID); err != nil || !on {
		t.Errorf("quarantine is off: %v", err)
	}
	ask := func(text string, names ...string) flaky.AskedFailure {
		f := flaky.AskedFailure{Text: text}
		for _, n := range names {
			f.Tests = append(f.Tests, testID(n))
		}
		return f
	}
	asked := []flaky.AskedFailure{
		ask("", "a"), ask("no answer after 12s", "a"), ask("at line 9\nwhatever", "a"), ask("TimeoutError: no answer after 1s", "a"), ask("index out of range", "a"),
		ask("", "nobody", "a"), ask("index out of range", "c"), ask("no answer after 3s", "b"), ask("", "nobody"),
	}
	want := "[true true true true false true true false false]"
	if got, err := w.Excused(ctx, w.repo.ID, asked, clock); err != nil || fmt.Sprint(got) != want {
		t.Errorf("%v %v, want %s", got, err, want)
	}
	want = "[true true true true false true false false false]"
	if got, err := w.Excused(ctx, w.repo.ID, asked, clock.Add(2*time.Hour)); err != nil || fmt.Sprint(got) != want {
		t.Errorf("after the end of c's: %v %v, want %s", got, err, want)
	}
	if ids, err := w.AllQuarantined(ctx, w.repo.ID, clock.Add(2*time.Hour)); err != nil || fmt.Sprint(ids) != fmt.Sprint([]any{testID("a")}) {
		t.Errorf("all: %v %v", ids, err)
	}
}

// A repository lets everybody upload under an id that stays until it is
// switched off.
func TestPublicUploads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	if _, _, err := w.PublicRepository(ctx, ""); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("no id: %v", err)
	}
	id, err := w.SetPublicUploads(ctx, w.repo.ID, true)
	if err != nil || len(id) != 8 {
		t.Fatalf("%q %v", id, err)
	}
	if again, err := w.SetPublicUploads(ctx, w.repo.ID, true); err != nil || again != id {
		t.Errorf("again: %q %v", again, err)
	}
	if repo, slug, err := w.PublicRepository(ctx, id); err != nil || repo.ID != w.repo.ID || slug != "acme" {
		t.Errorf("%+v %q %v", repo, slug, err)
	}
	if off, err := w.SetPublicUploads(ctx, w.repo.ID, false); err != nil || off != "" {
		t.Errorf("off: %q %v", off, err)
	}
	if _, _, err := w.PublicRepository(ctx, id); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("after it was switched off: %v", err)
	}
	if _, err := w.SetPublicUploads(ctx, w.repo.ID+1, true); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("of no repository: %v", err)
	}
}
