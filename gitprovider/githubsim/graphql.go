package githubsim

import (
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/validator"
	"github.com/vektah/gqlparser/v2/validator/rules"
)

//go:embed schema.graphql
var schemaText string

// schema is what can be asked.
var schema = sync.OnceValue(func() *ast.Schema {
	return gqlparser.MustLoadSchema(&ast.Source{Name: "schema.graphql", Input: schemaText})
})

// node is an object of GraphQL: its fields, each worked out when it is asked
// for. Values are nil, text, numbers, booleans, nodes and lists of nodes.
type node map[string]func(args map[string]any) (any, error)

// typeName is the field with the name of a node's type. A node has it where it may be
// of one of several.
const typeName = "__typename"

// value is a field that takes no arguments.
func value(v any) func(map[string]any) (any, error) {
	return func(map[string]any) (any, error) { return v, nil }
}

// graphQL answers POST /graphql. A query or mutation that the schema does not allow
// gets GitHub's errors for it, with status 200, and nothing is done.
func (c *call) graphQL() (any, error) {
	var in struct {
		Query     string         `json:"query"`
		Variables map[string]any `json:"variables"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if in.Query == "" {
		return object{"errors": []any{object{"message": "A query attribute must be specified and must be a string."}}}, nil
	}
	doc, problems := gqlparser.LoadQueryWithRules(schema(), in.Query, rules.NewDefaultRules())
	if len(problems) > 0 {
		return object{"errors": graphQLProblems(problems)}, nil
	}
	if len(doc.Operations) != 1 || doc.Operations[0].Operation == ast.Subscription {
		return object{"errors": []any{object{"message": "One query or mutation is answered, and nothing else."}}}, nil
	}
	op := doc.Operations[0]
	vars, err := validator.VariableValues(schema(), op, in.Variables)
	if err != nil {
		return object{"errors": []any{object{"message": err.Error()}}}, nil
	}
	x := &execution{c: c, vars: vars}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	root := c.queryNode()
	if op.Operation == ast.Mutation {
		root = c.mutationNode()
	}
	data := x.fields(op.SelectionSet, root, nil)
	answer := object{"data": data}
	if len(x.errors) > 0 {
		answer["errors"] = x.errors
	}
	return answer, nil
}

var unknownField = regexp.MustCompile(`^Cannot query field "([^"]*)" on type "([^"]*)"`)

// graphQLProblems says why a query is refused, as GitHub does.
func graphQLProblems(problems gqlerror.List) []any {
	var out []any
	for _, p := range problems {
		e := object{"message": p.Message, "locations": places(p.Locations)}
		if m := unknownField.FindStringSubmatch(p.Message); m != nil {
			e["message"] = fmt.Sprintf("Field '%s' doesn't exist on type '%s'", m[1], m[2])
			e["path"] = []string{"query", m[1]}
			e["extensions"] = object{"code": "undefinedField", "typeName": m[2], "fieldName": m[1]}
		}
		out = append(out, e)
	}
	return out
}

func places(at []gqlerror.Location) []any {
	out := []any{}
	for _, l := range at {
		out = append(out, object{"line": l.Line, "column": l.Column})
	}
	return out
}

// execution answers one query or mutation.
type execution struct {
	c      *call
	vars   map[string]any
	errors []any
}

// graphQLError is an error of one field; the rest of the answer stands.
type graphQLError struct{ kind, message string }

func (e graphQLError) Error() string { return e.message }

func (x *execution) fields(set ast.SelectionSet, of node, path []any) object {
	out := object{}
	for _, s := range set {
		switch s := s.(type) {
		case *ast.Field:
			out[s.Alias] = x.field(s, of, append(slices.Clone(path), s.Alias))
		case *ast.FragmentSpread:
			maps.Copy(out, x.fields(s.Definition.SelectionSet, of, path))
		case *ast.InlineFragment:
			if kind, is := of[typeName]; is {
				if name, _ := kind(nil); name != s.TypeCondition && schema().Types[s.TypeCondition].Kind == ast.Object {
					continue // it is about others
				}
			}
			maps.Copy(out, x.fields(s.SelectionSet, of, path))
		}
	}
	return out
}

func (x *execution) field(f *ast.Field, of node, path []any) any {
	if kind, is := of[typeName]; is && f.Name == typeName {
		name, _ := kind(nil)
		return name
	}
	if f.Name == typeName {
		return f.ObjectDefinition.Name
	}
	v, err := of[f.Name](f.ArgumentMap(x.vars))
	if err != nil {
		e := object{"message": err.Error(), "path": path, "locations": []any{object{"line": f.Position.Line, "column": f.Position.Column}}}
		if known, ok := err.(graphQLError); ok && known.kind != "" {
			e["type"] = known.kind
		}
		x.errors = append(x.errors, e)
		return nil
	}
	switch v := v.(type) {
	case node:
		return x.fields(f.SelectionSet, v, path)
	case []node:
		list := make([]any, len(v))
		for i := range v {
			list[i] = x.fields(f.SelectionSet, v[i], append(slices.Clone(path), i))
		}
		return list
	default:
		return v
	}
}

func (c *call) queryNode() node {
	return node{"repository": func(args map[string]any) (any, error) {
		full := fmt.Sprintf("%v/%v", args["owner"], args["name"])
		r := c.s.repoNamed(full)
		if r == nil || !c.s.sees(c.who, r) {
			return nil, graphQLError{"NOT_FOUND", fmt.Sprintf("Could not resolve to a Repository with the name '%s'.", full)}
		}
		return c.repositoryNode(r), nil
	}}
}

func (c *call) repositoryNode(r *repo) node {
	return node{
		"id": value(nodeID("R", r.id)), "databaseId": value(r.id), "nameWithOwner": value(r.fullName()),
		"ref": func(args map[string]any) (any, error) {
			if !c.s.may(c.who, r, "contents:read") {
				return nil, graphQLError{"FORBIDDEN", "Resource not accessible by integration"}
			}
			return c.refNode(r, fmt.Sprint(args["qualifiedName"]))
		},
		"object": func(args map[string]any) (any, error) {
			if !c.s.may(c.who, r, "contents:read") {
				return nil, graphQLError{"FORBIDDEN", "Resource not accessible by integration"}
			}
			return c.commitNode(r, fmt.Sprint(args["oid"]))
		},
		"pullRequest": func(args map[string]any) (any, error) {
			if !c.s.may(c.who, r, "pull_requests:read") {
				return nil, graphQLError{"FORBIDDEN", "Resource not accessible by integration"}
			}
			number, _ := strconv.Atoi(fmt.Sprint(args["number"]))
			p := r.pulls[number]
			if p == nil {
				return nil, graphQLError{"NOT_FOUND", fmt.Sprintf("Could not resolve to a PullRequest with the number of %d.", number)}
			}
			return c.pullNode(p), nil
		},
	}
}

func (c *call) pullNode(p *pull) node {
	of := c.aboutPull(p)
	maps.Copy(of, node{
		"reviewDecision": value(c.s.decision(p)),
		"reviewThreads": func(args map[string]any) (any, error) {
			var all []node
			for _, t := range p.threads {
				all = append(all, node{"isResolved": value(t.resolved)})
			}
			return connection("reviewThreads", all, args)
		},
		"latestOpinionatedReviews": func(args map[string]any) (any, error) {
			last := p.lastWords(args["writersOnly"] == true)
			var all []node
			for _, v := range p.reviews {
				if last[v.author] == v {
					all = append(all, node{"state": value(v.state), "author": value(authorNode(v.author))})
				}
			}
			return connection("latestOpinionatedReviews", all, args)
		},
	})
	return of
}

// connection is one page of a list. Cursors are positions.
func connection(name string, all []node, args map[string]any) (any, error) {
	first, err := strconv.Atoi(fmt.Sprint(args["first"]))
	if err != nil || args["last"] != nil || args["before"] != nil {
		return nil, graphQLError{"MISSING_PAGINATION_BOUNDARIES", fmt.Sprintf("You must provide a `first` or `last` value to properly paginate the `%s` connection.", name)}
	}
	if first < 0 || first > 100 {
		return nil, graphQLError{"EXCESSIVE_PAGINATION", fmt.Sprintf("Requesting %d records on the `%s` connection exceeds the `first` limit of 100 records.", first, name)}
	}
	from := 0
	if after, ok := args["after"].(string); ok {
		if from, err = strconv.Atoi(strings.TrimPrefix(after, "cursor:")); err != nil || from < 0 || from > len(all) {
			return nil, graphQLError{"", fmt.Sprintf("`%s` does not appear to be a valid cursor.", after)}
		}
	}
	to := min(from+first, len(all))
	info := node{"hasNextPage": value(to < len(all)), "endCursor": value(nil)}
	if to > from {
		info["endCursor"] = value(fmt.Sprintf("cursor:%d", to))
	}
	return node{"nodes": value(all[from:to:to]), "totalCount": value(len(all)), "pageInfo": value(info)}, nil
}
