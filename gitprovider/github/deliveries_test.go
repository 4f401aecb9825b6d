package github

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// An Enterprise Server keeps failed deliveries for a week, github.com for three
// days; what is older cannot be asked for, so it is not looked for.
func TestDeliveriesAreLookedForAsLongAsTheHostKeepsThem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path string
		ago  time.Duration
		want int
	}{
		"github.com, two days":           {"", 48 * time.Hour, 1},
		"github.com, four days":          {"", 96 * time.Hour, 0},
		"Enterprise Server, four days":   {"/api/v3", 96 * time.Hour, 1},
		"Enterprise Server, eight days":  {"/api/v3", 192 * time.Hour, 0},
		"Enterprise Server, older lists": {"/api/v3", 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var up atomic.Bool
			hook := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
				if !up.Load() {
					out.WriteHeader(http.StatusServiceUnavailable)
				}
			}))
			t.Cleanup(hook.Close)
			w.SetWebhook(hook.URL, "secret") // the ping finds nobody
			w.eventually("the ping", w.Delivered)
			w.cfg.APIURL = w.URL() + c.path
			w.cfg.WebURL = w.URL()
			w.cfg.Now = func() time.Time { return time.Now().Add(c.ago) }
			w.restart()
			up.Store(true)
			for i, want := range []int{c.want, 0} { // what has arrived is not asked for again
				n, err := w.c.Redeliver(w.ctx, time.Now().Add(-30*24*time.Hour))
				w.must(err)
				w.eventually("deliveries", w.Delivered)
				if n != want {
					t.Errorf("time %d: %d webhooks were sent again, want %d", i+1, n, want)
				}
			}
		})
	}
}
