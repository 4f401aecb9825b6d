package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/julienschmidt/httprouter"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// The documents, as pages under /docs/. Messages on pull requests and errors of
// the API link to sections of them, so that their names never change either:
//
//	/docs/                                the index, README.md
//	/docs/troubleshooting#merge_conflict  what to do about a reason
//
// Whoever reaches the server may read them: they say nothing about anybody.

// docsIndex is the document that lists the others.
const docsIndex = "README"

// document is one page of the documents.
type document struct {
	Name  string // of the file, without its extension
	Title string
	Body  template.HTML
}

// documents are all of them, in the order in which the index names them.
type documents struct {
	files  fs.FS
	byName map[string]*document
	order  []*document
}

// readDocuments renders the Markdown files of a file system. They are ours: an
// error means that one of them is wrong.
func readDocuments(files fs.FS) (documents, error) {
	d := documents{files: files, byName: map[string]*document{}}
	names, err := fs.Glob(files, "*.md")
	if err != nil {
		return d, fmt.Errorf("list documents: %w", err)
	}
	var listed []string
	for _, file := range names {
		source, err := fs.ReadFile(files, file)
		if err != nil {
			return d, fmt.Errorf("read document: %w", err)
		}
		doc, links, err := renderDocument(strings.TrimSuffix(file, ".md"), source)
		if err != nil {
			return d, err
		}
		d.byName[doc.Name] = doc
		if doc.Name == docsIndex {
			listed = append([]string{docsIndex}, links...)
		}
	}
	for _, name := range listed {
		if doc := d.byName[name]; doc != nil && !slices.Contains(d.order, doc) {
			d.order = append(d.order, doc)
		}
	}
	return d, nil
}

// renderDocument makes a page of a document. links are the documents that it
// leads to, in order.
func renderDocument(name string, source []byte) (*document, []string, error) {
	seen := &docLinks{}
	m := goldmark.New(
		goldmark.WithExtensions(extension.Table, extension.Strikethrough),
		goldmark.WithParserOptions(parser.WithAutoHeadingID(), parser.WithASTTransformers(util.Prioritized(seen, 100))),
	)
	var body bytes.Buffer
	// The words of a heading give its address, as they do on GitHub.
	if err := m.Convert(source, &body, parser.WithContext(parser.NewContext(parser.WithIDs(headingIDs{})))); err != nil {
		return nil, nil, fmt.Errorf("render document %s: %w", name, err)
	}
	if seen.title == "" {
		return nil, nil, fmt.Errorf("render document %s: it has no heading", name)
	}
	return &document{Name: name, Title: seen.title, Body: template.HTML(body.String())}, seen.to, nil
}

// headingIDs names headings as GitHub does, so that a link works there and here.
type headingIDs map[string]int

// Generate is the id of a heading: letters, digits, - and _ in lower case, and
// - for a space. One that is there already gets a number.
func (ids headingIDs) Generate(words []byte, _ ast.NodeKind) []byte {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(string(words))) {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	id := b.String()
	n, taken := ids[id]
	ids[id] = n + 1
	if taken {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	return []byte(id)
}

// Put takes note of an id that somebody else gave.
func (ids headingIDs) Put(id []byte) { ids[string(id)]++ }

// docLinks leads links between documents to their pages, and takes away those
// to files that are not served: their text stays.
type docLinks struct {
	title string
	to    []string
}

// Transform changes the links of a document.
func (l *docLinks) Transform(doc *ast.Document, reader text.Reader, _ parser.Context) {
	var away []ast.Node
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			if l.title == "" {
				l.title = plain(n, reader.Source())
			}
		case *ast.Link:
			address, name, ok := docAddress(string(n.Destination))
			if !ok {
				away = append(away, n)
			} else if n.Destination = []byte(address); name != "" {
				l.to = append(l.to, name)
			}
		case *ast.Image:
			if address, _, ok := docAddress(string(n.Destination)); ok {
				n.Destination = []byte(address)
			}
		}
		return ast.WalkContinue, nil
	})
	for _, n := range away {
		for c := n.FirstChild(); c != nil; c = n.FirstChild() {
			n.Parent().InsertBefore(n.Parent(), n, c)
		}
		n.Parent().RemoveChild(n.Parent(), n)
	}
}

// plain is the text of a node.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(c ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := c.(*ast.Text); ok && entering {
			b.Write(t.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// docAddress is where a link of a document leads on our pages, and the
// document's name if it is one. ok is false for a file that is not served.
func docAddress(link string) (address, name string, ok bool) {
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return "", "", false
	case u.Scheme == "https" || u.Scheme == "http" || u.Path == "" || strings.HasPrefix(u.Path, "/"):
		return link, "", true
	case strings.HasPrefix(u.Path, "../"):
		return "", "", false
	}
	if file, isDoc := strings.CutSuffix(u.Path, ".md"); isDoc {
		name = file
		u.Path = file
		if file == docsIndex {
			u.Path = ""
		}
	}
	u.Path = "/docs/" + u.Path
	return u.String(), name, true
}

// docView is a document on its page.
type docView struct {
	*document
	All []*document
}

func (docView) template() string  { return "doc" }
func (v docView) Heading() string { return v.Title }

// Address is where a document stands.
func (d *document) Address() string {
	if d.Name == docsIndex {
		return "/docs/"
	}
	return "/docs/" + d.Name
}

// docs serves the documents and their drawings.
func (h *Handler) docs(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(httprouter.ParamsFromContext(r.Context()).ByName("path"), "/")
	if name == "" {
		name = docsIndex
	}
	// A document can be read without a database: it is not said then who reads.
	if v, ok, err := h.welcome(r); err == nil && ok {
		r = r.WithContext(context.WithValue(r.Context(), visitorKey{}, v))
	}
	if doc := h.documents.byName[name]; doc != nil {
		h.render(w, r, http.StatusOK, frame{View: docView{document: doc, All: h.documents.order}})
		return
	}
	drawing, err := h.drawing(name)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("Cache-Control", "public, max-age=3600")
	_, _ = w.Write(drawing) // the reader is gone
}

// drawing reads a picture of the documents.
func (h *Handler) drawing(name string) ([]byte, error) {
	if h.documents.files == nil || path.Ext(name) != ".svg" || !fs.ValidPath(name) {
		return nil, absent("There is no such document.")
	}
	content, err := fs.ReadFile(h.documents.files, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, absent("There is no such document.")
	}
	if err != nil {
		return nil, fmt.Errorf("read drawing: %w", err)
	}
	return content, nil
}
