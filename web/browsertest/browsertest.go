// Package browsertest opens pages in a real browser for tests: Chromium without
// a window, with a fresh profile that is removed afterwards. It listens for
// what a page complains of, takes pictures, and looks at what every page owes
// its readers: names for everything that can be used, contrast, a visible
// focus, and no text outside the window.
//
// A test that opens a browser is skipped where there is none, unless
// SIGNALBOX_BROWSER is "required".
package browsertest

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// programs are the names that the browser has on various systems.
var programs = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"}

// patience bounds each step: the machine may be busy.
const patience = 3 * time.Minute

// Browser is a running browser.
type Browser struct {
	ctx context.Context
}

// Open starts a browser that ends with the test.
func Open(t testing.TB) *Browser {
	t.Helper()
	path := find()
	if path == "" {
		if os.Getenv("SIGNALBOX_BROWSER") == "required" {
			t.Fatalf("there is no browser, and SIGNALBOX_BROWSER=required wants one: install one of %s", strings.Join(programs, ", "))
		}
		t.Skipf("there is no browser to look at pages with: install one of %s", strings.Join(programs, ", "))
	}
	allocated, cancel := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", true), chromedp.WSURLReadTimeout(patience))...)
	ctx, stop := chromedp.NewContext(allocated)
	if err := chromedp.Do(ctx); err != nil {
		stop()
		cancel()
		t.Fatalf("start %s: %v", path, err)
	}
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits until it has ended, so that its profile can be removed
		stop()
		cancel()
	})
	return &Browser{ctx: ctx}
}

func find() string {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		for _, name := range programs {
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return filepath.Join(dir, name)
			}
		}
	}
	return ""
}

// Look is how a tab shows pages.
type Look struct {
	Width, Height int64 // of the window, in pixels
	Dark          bool  // what the system prefers
	NoScript      bool
}

// Tab is a window on pages. Its methods fail the test.
type Tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	problems []string // what pages complained of
}

// Tab opens one, with cookies of its own.
func (b *Browser) Tab(t testing.TB, look Look) *Tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	tab := &Tab{t: t, ctx: ctx}
	scheme := "light"
	if look.Dark {
		scheme = "dark"
	}
	if err := chromedp.Listen(ctx, tab.hear); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	call(tab, cdplog.Enable, cdp.Empty{})
	call(tab, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: look.Width, Height: look.Height, DeviceScaleFactor: 1})
	call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	call(tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: look.NoScript})
	return tab
}

// call sends a command to the tab's page.
func call[P, R any](tab *Tab, command cdp.Command[P, R], params P) {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	if _, err := chromedp.Call(ctx, command, params); err != nil {
		tab.t.Fatalf("%s: %v", command.Method, err)
	}
}

// hear notes what a page complains of, and agrees to whatever it asks.
func (tab *Tab) hear(event any) {
	problem := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		problem = "exception: " + e.ExceptionDetails.Text
		if thrown := e.ExceptionDetails.Exception; thrown != nil {
			problem += " " + thrown.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			problem = "console " + string(e.Type)
			for _, a := range e.Args {
				problem += " " + string(a.Value)
			}
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError || e.Entry.Level == cdplog.EntryLevelWarning {
			problem = string(e.Entry.Source) + ": " + e.Entry.Text + " " + e.Entry.URL
		}
	case *page.EventJavascriptDialogOpening:
		go func() {
			_, _ = chromedp.Call(tab.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
		}()
	}
	if problem != "" {
		tab.mu.Lock()
		defer tab.mu.Unlock()
		tab.problems = append(tab.problems, problem)
	}
}

// Problems are what pages complained of since the last call.
func (tab *Tab) Problems() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	found := tab.problems
	tab.problems = nil
	return found
}

// run takes an action and returns what it yields.
func run[T any](tab *Tab, doing string, action chromedp.Action[T]) T {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		tab.t.Fatalf("%s: %v", doing, err)
	}
	return value
}

// Visit opens an address and waits until it is loaded.
func (tab *Tab) Visit(address string) {
	tab.t.Helper()
	run(tab, "visit "+address, chromedp.Navigate(address))
}

// Click clicks the first thing that a CSS selector finds.
func (tab *Tab) Click(selector string) {
	tab.t.Helper()
	run(tab, "click "+selector, chromedp.Click(chromedp.CSS(selector)))
}

// Fill writes a text into the first field that a CSS selector finds.
func (tab *Tab) Fill(selector, text string) {
	tab.t.Helper()
	run(tab, "fill "+selector, chromedp.SetValue(chromedp.CSS(selector), text))
}

// Sees waits until the page shows a text. It may move to another page meanwhile.
func (tab *Tab) Sees(text string) {
	tab.t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		tab.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	look := chromedp.Evaluate[bool](fmt.Sprintf("document.body !== null && document.body.innerText.includes(%s)", quoted))
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		seen, err := chromedp.Run(ctx, look) // an error: the page has just gone
		if err == nil && seen {
			return
		}
		select {
		case <-ctx.Done():
			tab.t.Fatalf("the page does not show %q (%v):\n%s", text, err, tab.Text())
		case <-again.C:
		}
	}
}

// Open opens everything on the page that can be folded out.
func (tab *Tab) Open() {
	tab.t.Helper()
	run(tab, "open what is folded", chromedp.Evaluate[bool](`document.querySelectorAll("details").forEach((d) => { d.open = true; }), true`))
}

// Text is what the page shows.
func (tab *Tab) Text() string {
	tab.t.Helper()
	return run(tab, "read the page", chromedp.Text(chromedp.CSS("body")))
}

// Address is where the tab is.
func (tab *Tab) Address() string {
	tab.t.Helper()
	return run(tab, "read the address", chromedp.Location())
}

// Picture is the window as a PNG.
func (tab *Tab) Picture() []byte {
	tab.t.Helper()
	return run(tab, "take a picture", chromedp.CaptureScreenshot())
}

//go:embed check.js
var checks string

// axe is the script of axe-core, which knows more rules than ours; "" = nobody
// said where it is.
var axe = sync.OnceValues(func() (string, error) {
	path := os.Getenv("SIGNALBOX_AXE")
	if path == "" {
		return "", nil
	}
	script, err := os.ReadFile(path)
	return string(script), err
})

// runAxe lists what it finds, each with the place.
const runAxe = `
axe.run({resultTypes: ["violations"]}).then((r) => r.violations.flatMap((v) => v.nodes.slice(0, 3).map((n) => "axe " + v.id + ": " + v.help + ": " + n.html.slice(0, 200))))`

// Faults looks at the page as readers with other eyes, hands and windows do.
// Each fault is a sentence. Where SIGNALBOX_AXE names the file axe.min.js of npm's
// axe-core, that looks, too.
func (tab *Tab) Faults() []string {
	tab.t.Helper()
	faults := run(tab, "look at the page", chromedp.Evaluate[[]string](checks))
	script, err := axe()
	if err != nil {
		tab.t.Fatalf("SIGNALBOX_AXE: %v", err)
	}
	if script == "" {
		return faults
	}
	run(tab, "load axe", chromedp.Evaluate[bool](script+";true"))
	return append(faults, run(tab, "look with axe", chromedp.Evaluate[[]string](runAxe, chromedp.EvalAwaitPromise))...)
}
