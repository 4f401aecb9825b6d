package github

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"signalbox/queue"
)

// A machine may reach GitHub through a proxy alone, which the environment
// names as for any other program. What is read of the environment is kept by
// Go for the life of a process, so a process of its own plays the server.

// proxied tells that process what to do.
type proxied struct {
	AppID           int64
	Key             []byte
	APIURL, DataDir string
	Step            queue.StepSpec
	Nowhere         string // an address that is asked in vain, if any
}

const proxiedVar = "SIGNALBOX_TEST_PROXIED"

// TestProxiedServer is no test by itself: it is the process.
func TestProxiedServer(t *testing.T) {
	text := os.Getenv(proxiedVar)
	if text == "" {
		t.Skip("it is run by the tests of proxies")
	}
	var p proxied
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, ctx: t.Context(), cfg: Config{AppID: p.AppID, PrivateKey: p.Key, APIURL: p.APIURL, DataDir: p.DataDir, Limits: Unlimited}}
	w.restart()
	var err error
	w.repo, err = w.c.Find(t.Context(), w.c.Host(), "acme", "app")
	w.must(err)
	facts, err := w.c.Build(t.Context(), w.repo, queue.BuildRuns{Runs: []queue.BuildRun{oneRun("a", queue.MergeCommit, 1, p.Step)}, RequiredStatuses: []string{"test"}})
	w.must(err)
	if _, ok := facts[0].(queue.RunBuilt); len(facts) != 1 || !ok {
		t.Errorf("Build gave %+v", facts)
	}
	if p.Nowhere != "" {
		w.cfg.APIURL, w.cfg.WebURL = p.Nowhere, p.Nowhere
		w.restart()
		if repo, err := w.c.Find(t.Context(), w.c.Host(), "acme", "app"); err == nil {
			t.Errorf("found %v where nothing is", repo)
		}
	}
}

// proxy is a proxy that leads everything to one server, and keeps what it was
// asked for: who asked, how and for which host.
type proxy struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

func newProxy(t *testing.T, plain, secure string) *proxy {
	to, err := url.Parse(plain)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	p := &proxy{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, _, _ := strings.Cut(r.UserAgent(), "/")
		how := "plain"
		if r.Method == http.MethodConnect {
			how = "connect"
		}
		p.mu.Lock()
		if line := who + " " + how + " " + r.Host; !slices.Contains(p.asked, line) {
			p.asked = append(p.asked, line)
		}
		p.mu.Unlock()
		if how == "plain" {
			forward.ServeHTTP(w, r)
			return
		}
		if err := tunnel(w, r.Context(), secure); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// tunnel connects a client with a server, until either hangs up.
func tunnel(w http.ResponseWriter, ctx context.Context, server string) error {
	var d net.Dialer
	there, err := d.DialContext(ctx, "tcp", server)
	if err != nil {
		return err
	}
	here, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		there.Close()
		return err
	}
	_, _ = io.WriteString(here, "HTTP/1.1 200 Connected\r\n\r\n")
	go func() { _, _ = io.Copy(there, here); there.Close() }()
	_, _ = io.Copy(here, there)
	return here.Close()
}

func TestTheProxyOfTheEnvironmentIsUsed(t *testing.T) {
	w := newWorld(t)
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere Go reads no certificates from the environment")
	}
	secure := httptest.NewTLSServer(w.Handler()) // its certificate is for example.com
	t.Cleanup(secure.Close)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	w.must(os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600))
	for name, c := range map[string]struct {
		address string // of the host, as the server is told
		nowhere string
		env     []string // THERE stands for the proxy's address
		want    []string // what the proxy is asked
	}{
		"HTTPS_PROXY": {
			address: "https://example.com", nowhere: "https://nowhere.invalid", env: []string{"HTTPS_PROXY=THERE", "NO_PROXY=.invalid"},
			want: []string{"Go-http-client connect example.com:443", "git connect example.com:443"},
		},
		"https_proxy": {
			address: "https://example.com", env: []string{"https_proxy=THERE"},
			want: []string{"Go-http-client connect example.com:443", "git connect example.com:443"},
		},
		"HTTP_PROXY": {
			address: "http://github.invalid", env: []string{"HTTP_PROXY=THERE"},
			want: []string{"Go-http-client plain github.invalid", "git plain github.invalid", "signalbox plain github.invalid"},
		},
		"NO_PROXY": {address: w.URL(), env: []string{"HTTP_PROXY=THERE", "HTTPS_PROXY=THERE", "NO_PROXY=127.0.0.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProxy(t, w.URL(), secure.Listener.Addr().String())
			text, err := json.Marshal(proxied{
				AppID: w.cfg.AppID, Key: w.cfg.PrivateKey, APIURL: c.address, DataDir: t.TempDir(),
				Step: w.open(name, "1\n"), Nowhere: c.nowhere,
			})
			w.must(err)
			server := exec.CommandContext(w.ctx, os.Args[0], "-test.run=^TestProxiedServer$")
			server.Env = []string{"PATH=" + os.Getenv("PATH"), "SSL_CERT_FILE=" + authority, "GIT_SSL_CAINFO=" + authority, proxiedVar + "=" + string(text)}
			for _, v := range c.env {
				server.Env = append(server.Env, strings.ReplaceAll(v, "THERE", p.URL))
			}
			if out, err := server.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("PASS")) {
				t.Fatalf("the server: %v\n%s", err, out)
			}
			slices.Sort(p.asked)
			if !slices.Equal(p.asked, c.want) {
				t.Errorf("the proxy was asked %q, want %q", p.asked, c.want)
			}
		})
	}
}
