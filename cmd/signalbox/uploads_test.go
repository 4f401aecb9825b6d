package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"signalbox/flaky"
	"signalbox/queue"
)

// A report goes in through the API, a job reads it, and the API shows the test:
// the whole way, as one line of curl begins it.
func TestAnUploadedReportIsShown(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w, err := newTown(ctx, t, queue.DefaultSettings(), false)
	if err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, report := range map[string]string{
		"a.xml": `<testsuite name="shop"><testcase classname="Cart" name="total"><failure message="got 3, want 4"/></testcase></testsuite>`,
		"b.xml": `<testsuite name="shop"><testcase classname="Cart" name="empty"/></testsuite>`,
	} {
		part, err := form.CreateFormFile("report", name)
		if err != nil {
			t.Fatal(err)
		}
		z := gzip.NewWriter(part)
		_, _ = io.WriteString(z, report)
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_ = form.Close()
	api := "http://" + w.service.main.address() + "/v1/"
	url := api + "test-results?owner=acme&name=app&branch=main&job=1&expected=2&sha=0123456789012345678901234567890123456789"
	send := func(url, kind string, body io.Reader) (int, []byte) {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Token", w.token)
		r.Header.Set("Content-Type", kind)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, text
	}
	if code, text := send(url, form.FormDataContentType(), &body); code != http.StatusOK {
		t.Fatalf("uploaded: %d %s", code, text)
	}
	id := flaky.Test{Org: "acme", Repo: demoHost + "/acme/app", Classname: "Cart", Parent: "shop", Name: "total"}.ID()
	ask := `{"repo":{"host":"` + demoHost + `","owner":"acme","name":"app"},"org_url_slug":"acme","test_id":"` + id.String() + `"}`
	for {
		code, text := send(api+"flaky-tests/get-test-details", "application/json", strings.NewReader(ask))
		if code == http.StatusNotFound { // the job has not read it yet
			select {
			case <-ctx.Done():
				t.Fatalf("the test is never shown: %s", text)
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		var got struct {
			Test struct {
				HTMLURL string `json:"html_url"`
				Parent  string
				Rate    float64                    `json:"failure_rate_last_7d"`
				Common  []struct{ Summary string } `json:"most_common_failures"`
			}
		}
		if err := json.Unmarshal(text, &got); err != nil || code != http.StatusOK {
			t.Fatalf("%d %v %s", code, err, text)
		}
		if got.Test.Parent != "shop" || got.Test.Rate != 1 || len(got.Test.Common) != 1 || got.Test.Common[0].Summary != "got <n>, want <n>" || !strings.HasPrefix(got.Test.HTMLURL, "http") {
			t.Errorf("shown: %s", text)
		}
		return
	}
}
