package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// simulated runs the command and returns what it printed.
func simulated(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out, log bytes.Buffer
	err := run(t.Context(), append([]string{"simulate"}, args...), console{out: &out, err: &log})
	return out.String(), err
}

// Somebody's own numbers give a table, an advice in the words of the API, and
// drawings that are XML and name what they show.
func TestSimulateYourNumbers(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "plots")
	out, err := simulated(t, "--per-hour=120", "--workers=20", "--fails=2", "--changes=80", "--seeds=1", "--plots", folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"The advice is batches of ", "batch=true batchingMinSize=", "concurrency=", "half through"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	plots, err := filepath.Glob(filepath.Join(folder, "*.svg"))
	if err != nil || len(plots) != 2 {
		t.Fatalf("drawn: %v, %v", plots, err)
	}
	for _, path := range plots {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(text, []byte(">batches of ")) || bytes.Contains(text, []byte("NaN")) || bytes.Contains(text, []byte("Inf")) {
			t.Errorf("%s does not show the best choices, or shows a place that is none", path)
		}
		for d := xml.NewDecoder(bytes.NewReader(text)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
	}
}

// What was recorded is played as it was.
func TestSimulateWhatWasRecorded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.csv")
	lines := "ready,minutes,outcome\n"
	for i := range 12 {
		lines += "2026-01-31T12:0" + string(rune('0'+i%10)) + ":00Z,10,merged\n"
	}
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := simulated(t, "--history", path, "--json")
	if err != nil {
		t.Fatal(err)
	}
	var advice struct {
		Choices []struct {
			Name    string
			Figures struct{ Minutes50 struct{ Value float64 } }
		}
		Says string
	}
	if err := json.Unmarshal([]byte(out), &advice); err != nil || len(advice.Choices) < 10 || advice.Says == "" {
		t.Fatalf("%v: %s", err, out)
	}
	for _, c := range advice.Choices {
		if c.Name == "concurrency 20" && c.Figures.Minutes50.Value != 10 {
			t.Errorf("with room for all, half are through after %v minutes, not 10", c.Figures.Minutes50.Value)
		}
	}
}

// Of the benchmark one can play some cells, with some policies and other histories.
func TestABenchmarkOfSome(t *testing.T) {
	t.Parallel()
	out, err := simulated(t, "--cells=headline", "--only=A3,A9 single 20", "--policies=adaptive,zuul", "--changes=20", "--seeds=1", "--seed=11", "--markdown")
	if err != nil {
		t.Fatal(err)
	}
	for part, times := range map[string]int{"### ": 2, "### A3 single 60/h\n": 1, "| zuul |": 4, "| adaptive, from history |": 2, "| single |": 0} {
		if n := strings.Count(out, part); n != times {
			t.Errorf("%q is there %d times, not %d:\n%s", part, n, times, out)
		}
	}
	if other, err := simulated(t, "--cells=headline", "--only=A3", "--policies=zuul", "--changes=20", "--seeds=1", "--markdown"); err != nil || strings.Contains(out, strings.Split(other, "\n")[8]) {
		t.Errorf("the first history and the eleventh are the same: %v\n%s\n%s", err, out, other)
	}
	if _, err := simulated(t, "--cells=headline", "--only=A3", "--policies=nobody"); err == nil || !strings.Contains(err.Error(), `"A3"`) {
		t.Errorf("without any policy: %v", err)
	}
}

// A long benchmark says where it is and how long the rest takes: elsewhere than on a
// terminal with each cell, and on one it draws that after each play.
func TestABenchmarkSaysHowFarItIs(t *testing.T) {
	t.Parallel()
	var file, screen bytes.Buffer
	for out, size := range map[*bytes.Buffer]func() (int, int){&file: nil, &screen: func() (int, int) { return 200, 24 }} {
		p := pace{out: &progress{out: out, size: size}, began: time.Now().Add(-10 * time.Minute), cells: 3, all: 6}
		p.next("A1", 2)
		p.played()
		p.played()
		p.next("A3", 4)
		p.played()
	}
	if got := file.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "Cell 1 of 3, A1: 0 of 2 plays.\n") ||
		!strings.Contains(got, "Cell 2 of 3, A3: 0 of 4 plays, 2 of all 6; if the rest is as fast, it takes 20 minutes more.\n") {
		t.Errorf("into a file it says:\n%s", got)
	}
	if got := screen.String(); !strings.Contains(got, "\x1b[1A\r\x1b[JCell 1 of 3, A1: 1 of 2 plays, 1 of all 6; if the rest is as fast, it takes 50 minutes more.\n") ||
		!strings.HasSuffix(got, "Cell 2 of 3, A3: 1 of 4 plays, 3 of all 6; if the rest is as fast, it takes 10 minutes more.\n") {
		t.Errorf("on a terminal it says:\n%q", got)
	}
}

// All numbers that make no sense are named together.
func TestSimulateRefusesNumbersThatMakeNoSense(t *testing.T) {
	t.Parallel()
	_, err := simulated(t, "--per-hour=0", "--workers=-1", "--fails=101", "--history=simulate.go", "--repo=acme/app")
	for _, want := range []string{"--per-hour is 0", "--workers is -1", "--fails is 101", "not both"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := simulated(t, "--history=simulate.go"); err == nil || !strings.Contains(err.Error(), "CSV") {
		t.Errorf("a file that is no history: %v", err)
	}
}
