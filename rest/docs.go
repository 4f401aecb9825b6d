package rest

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// The page about the API. It is one document without scripts, made from the
// description alone.

//go:embed openapi/page.html
var docsPage string

//go:embed openapi/page.css
var docsStyle string

// docsPolicy lets the page have its own style and nothing else at all.
func docsPolicy() string {
	sum := sha256.Sum256([]byte(docsStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// docsView is what the page shows.
type docsView struct {
	Style template.CSS
	Title string
	Intro []string // paragraphs
	Tags  []docsTag
}

type docsTag struct {
	Name, About string
	Operations  []docsOperation
}

type docsOperation struct {
	ID, Method, Path, Scope string
	Summary                 string
	About                   []string // paragraphs
	Request                 []docsField
	Answer                  string // what the answer is
	AnswerType              string
	Response                []docsField
	Errors                  []docsError
}

// docsField is a field of a body, or a parameter.
type docsField struct {
	Name     string // a.b[].c
	Depth    int
	Type     string
	Required bool
	About    string
}

type docsError struct{ Status, About string }

func renderDocs(description []byte) ([]byte, error) {
	var root tree
	if err := yaml.UnmarshalWithOptions(description, (*yaml.MapSlice)(&root), yaml.UseOrderedMap()); err != nil {
		return nil, fmt.Errorf("read the description: %w", err)
	}
	page, err := template.New("docs").Funcs(template.FuncMap{"prose": prose}).Parse(docsPage)
	if err != nil {
		return nil, fmt.Errorf("read the template of the page: %w", err)
	}
	var out bytes.Buffer
	if err := page.Execute(&out, viewOf(root)); err != nil {
		return nil, fmt.Errorf("fill in the page: %w", err)
	}
	return out.Bytes(), nil
}

// span is a piece of a sentence.
type span struct {
	Text string
	Code bool
}

// prose splits a text at its backquotes.
func prose(text string) []span {
	var out []span
	for i, part := range strings.Split(text, "`") {
		if part != "" {
			out = append(out, span{part, i%2 == 1})
		}
	}
	return out
}

// tree is a node of the description that has members, in their order.
type tree yaml.MapSlice

func (t tree) get(name string) any {
	for _, item := range t {
		if item.Key == name {
			return item.Value
		}
	}
	return nil
}

func (t tree) child(names ...string) tree {
	for _, name := range names {
		m, _ := t.get(name).(yaml.MapSlice)
		t = tree(m)
	}
	return t
}

func (t tree) text(name string) string {
	if v := t.get(name); v != nil {
		return strings.TrimSpace(fmt.Sprint(v))
	}
	return ""
}

func (t tree) list(name string) []any {
	list, _ := t.get(name).([]any)
	return list
}

func paragraphs(text string) []string {
	var out []string
	for p := range strings.SplitSeq(text, "\n\n") {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}

func viewOf(root tree) docsView {
	view := docsView{
		Style: template.CSS(docsStyle), Title: root.child("info").text("title"),
		Intro: paragraphs(root.child("info").text("description")),
	}
	d := drawing{root}
	for _, item := range root.list("tags") {
		tag, _ := item.(yaml.MapSlice)
		shown := docsTag{Name: tree(tag).text("name"), About: tree(tag).text("description")}
		for _, path := range root.child("paths") {
			methods, _ := path.Value.(yaml.MapSlice)
			for _, method := range methods {
				op, _ := method.Value.(yaml.MapSlice)
				if tags := tree(op).list("tags"); len(tags) > 0 && tags[0] == shown.Name {
					shown.Operations = append(shown.Operations, d.operation(fmt.Sprint(method.Key), fmt.Sprint(path.Key), tree(op)))
				}
			}
		}
		view.Tags = append(view.Tags, shown)
	}
	return view
}

// drawing makes a page of a description.
type drawing struct{ root tree }

func (d drawing) operation(method, path string, op tree) docsOperation {
	out := docsOperation{
		ID: op.text("operationId"), Method: strings.ToUpper(method), Path: "/v1" + path, Scope: op.text("x-scope"),
		Summary: op.text("summary"), About: paragraphs(op.text("description")),
	}
	for _, item := range op.list("parameters") {
		m, _ := item.(yaml.MapSlice)
		p := tree(m)
		out.Request = append(out.Request, docsField{
			Name: p.text("name") + " (" + p.text("in") + ")", Type: d.typeOf(p.child("schema")),
			Required: p.text("required") == "true", About: p.text("description"),
		})
	}
	out.Request = append(out.Request, d.fields("", 0, op.child("requestBody", "content", "application/json", "schema"))...)
	for _, item := range op.child("responses") {
		m, _ := item.Value.(yaml.MapSlice)
		response := tree(m)
		status := fmt.Sprint(item.Key)
		if status != "200" {
			out.Errors = append(out.Errors, docsError{status, d.resolved(response).text("description")})
			continue
		}
		out.Answer = response.text("description")
		for _, content := range response.child("content") {
			out.AnswerType = fmt.Sprint(content.Key)
		}
		out.Response = d.fields("", 0, response.child("content", "application/json", "schema"))
	}
	return out
}

// resolved follows a reference; what stands beside it wins.
func (d drawing) resolved(t tree) tree {
	ref := t.text("$ref")
	if ref == "" {
		return t
	}
	target := d.resolved(d.root.child(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...))
	return append(slices.Clone(t), target...) // get finds the first
}

// fields lists the fields of a schema, those inside others after them.
func (d drawing) fields(prefix string, depth int, schema tree) []docsField {
	schema = d.resolved(schema)
	var out []docsField
	for _, part := range schema.list("allOf") {
		m, _ := part.(yaml.MapSlice)
		out = append(out, d.fields(prefix, depth, tree(m))...)
	}
	if items := schema.child("items"); items != nil {
		return append(out, d.fields(strings.TrimSuffix(prefix, ".")+"[].", depth, items)...)
	}
	required := schema.list("required")
	for _, property := range schema.child("properties") {
		m, _ := property.Value.(yaml.MapSlice)
		inner := d.resolved(tree(m))
		name := fmt.Sprint(property.Key)
		out = append(out, docsField{
			Name: prefix + name, Depth: depth, Type: d.typeOf(inner), About: inner.text("description"),
			Required: slices.Contains(required, any(name)),
		})
		out = append(out, d.fields(prefix+name+".", depth+1, inner)...)
	}
	return out
}

// typeOf says in words what a schema takes.
func (d drawing) typeOf(schema tree) string {
	schema = d.resolved(schema)
	if choices := schema.list("oneOf"); choices != nil {
		words := make([]string, len(choices))
		for i, choice := range choices {
			m, _ := choice.(yaml.MapSlice)
			words[i] = d.typeOf(tree(m))
		}
		return strings.Join(words, " or ")
	}
	if choices := schema.list("enum"); choices != nil {
		words := make([]string, len(choices))
		for i, choice := range choices {
			words[i] = strings.Trim(fmt.Sprintf("%q", fmt.Sprint(choice)), `"`)
			if choice == nil {
				words[i] = "null"
			}
		}
		return strings.Join(words, " | ")
	}
	kind := schema.text("type")
	if several := schema.list("type"); several != nil {
		words := make([]string, len(several))
		for i, one := range several {
			words[i] = fmt.Sprint(one)
		}
		kind = strings.Join(words, " or ")
	}
	if kind == "" && schema.list("allOf") != nil {
		kind = "object"
	}
	if items := schema.child("items"); items != nil {
		kind += " of " + d.typeOf(items)
	}
	if low, high := schema.text("minimum"), schema.text("maximum"); low != "" && high != "" {
		kind += " from " + low + " to " + high
	}
	return kind
}
