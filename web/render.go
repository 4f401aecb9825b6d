package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"path"

	"github.com/julienschmidt/httprouter"
)

//go:embed pages
var files embed.FS

// view is what a template shows. The name is that of its file without
// extension.
type view interface {
	template() string
	Heading() string // for the window's title
}

// frame is what is around every page.
type frame struct {
	View  view
	Theme string // "light" or "dark" where the reader chose; "" = as the system is
	// Stream is the address of the news about what the page shows, Seen the
	// version that it shows; "" = it has none.
	Stream string
	Seen   int64
	// Who is the login of the reader, CSRF what a form of theirs carries.
	Who, CSRF string
	SignsIn   bool // people sign in here
	Docs      bool // there are documents
	// Tabs are the pages that belong together with this one.
	Tabs []tab
}

// pages are the parsed templates by name, and the style sheet with the address
// that changes with its content.
type pages struct {
	templates map[string]*template.Template
	assets    map[string]asset
}

// asset is a file that a page loads.
type asset struct {
	content     []byte
	contentType string
}

// parsePages reads the embedded files. It fails only if one of them is wrong.
func parsePages() (pages, error) {
	p := pages{templates: map[string]*template.Template{}, assets: map[string]asset{}}
	addresses := map[string]string{}
	for file, contentType := range map[string]string{
		"style.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml",
	} {
		content, err := files.ReadFile("pages/" + file)
		if err != nil {
			return pages{}, err
		}
		sum := sha256.Sum256(content)
		versioned := hex.EncodeToString(sum[:6]) + path.Ext(file)
		p.assets[versioned] = asset{content, contentType}
		addresses[file] = "/assets/" + versioned
	}
	funcs := template.FuncMap{"asset": func(file string) string { return addresses[file] }}
	for _, name := range []string{"overview", "queue", "pr", "run", "problem", "signin", "settings", "tokens", "audit", "subscribers", "subscriber", "health", "endings", "tests", "test", "uploads", "upload", "doc"} {
		t, err := template.New("layout.html").Funcs(funcs).ParseFS(files, "pages/layout.html", "pages/parts.html", "pages/graph.html", "pages/chart.html", "pages/"+name+".html")
		if err != nil {
			return pages{}, fmt.Errorf("parse page %s: %w", name, err)
		}
		p.templates[name] = t
	}
	return p, nil
}

// render writes a page whole, or an error page when it does not render.
func (h *Handler) render(w http.ResponseWriter, r *http.Request, status int, f frame) {
	v := visitorOf(r.Context())
	f.Theme, f.Who, f.CSRF, f.SignsIn, f.Docs = themeOf(r), v.actor.Login, v.csrf, h.signIn != nil, h.documents.files != nil
	var body bytes.Buffer
	if err := h.pages.templates[f.View.template()].Execute(&body, f); err != nil {
		h.log.Error("page not rendered", "page", f.View.template(), "err", err)
		http.Error(w, "The page cannot be shown.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store") // a page is true for a moment
	w.WriteHeader(status)
	_, _ = body.WriteTo(w) // the reader is gone, and so is the page
}

// themeOf is the look that the reader chose with the button of every page.
func themeOf(r *http.Request) string {
	c, err := r.Cookie("theme")
	if err == nil && (c.Value == "dark" || c.Value == "light") {
		return c.Value
	}
	return ""
}

// asset serves a file under the address that names its content.
func (h *Handler) asset(w http.ResponseWriter, r *http.Request, p httprouter.Params) {
	a, ok := h.pages.assets[p.ByName("file")]
	if !ok {
		h.router.NotFound.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", a.contentType)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(a.content)
}
