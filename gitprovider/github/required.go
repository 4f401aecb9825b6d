package github

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"signalbox/gitprovider"
	"signalbox/gitprovider/mirror"
	"signalbox/queue"
)

// The configuration files that are understood, first one there wins.
var configFiles = []string{".signalbox.yaml", ".github/signalbox.yaml", ".trunk/trunk.yaml"}

// Bounds on a configuration file and on what it may name.
const (
	maxConfig   = 64 << 10
	maxRequired = 200
	maxName     = 255
)

// configError is a configuration file that cannot be used: the message names
// file, line and reason.
type configError struct{ message string }

func (e *configError) Error() string { return e.message }

// required finds the statuses that a run must pass, from the first source
// that has any: the queue's own list, the configuration file in the tree that
// is tested, the host's rules for the target. Our own check is never among
// them. None at all is no error; the caller refuses the run.
func (c *Client) required(ctx context.Context, k *conn, src mirror.Source, own []string, target, commit string, host func() (rules, error)) ([]queue.Required, queue.RequiredSource, error) {
	if list := names(own, target); len(list) > 0 {
		return list, queue.FromQueue, nil
	}
	var file string
	var body []byte
	var long bool
	err := c.withSource(ctx, k, src.Repo, func(src mirror.Source) (err error) {
		file, body, long, err = c.mirrors.File(ctx, src, commit, maxConfig, configFiles...)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	if long {
		return nil, "", &configError{fmt.Sprintf("%s is longer than %d bytes", file, maxConfig)}
	}
	if file != "" {
		listed, err := parseConfig(file, body)
		if err != nil {
			return nil, "", err
		}
		if list := names(listed, target); len(list) > 0 {
			return list, queue.FromConfigFile, nil
		}
	}
	r, err := host()
	if err != nil {
		return nil, "", err
	}
	return r.others(target), queue.FromProtection, nil
}

// names are required statuses by name, each once, without our own check.
func names(list []string, target string) []queue.Required {
	var out []queue.Required
	for _, name := range list {
		if q := (queue.Required{Name: name}); name != "" && name != gitprovider.OwnCheck(target) && !slices.Contains(out, q) {
			out = append(out, q)
		}
	}
	return out
}

// listed is a status as a configuration file names it.
type listed struct {
	name string // "" for what is no text
	line int
}

// UnmarshalYAML takes the text of any scalar as it was written: a status may
// be called 1.0 or yes.
func (l *listed) UnmarshalYAML(n ast.Node) error {
	if at := n.GetToken(); at != nil && at.Position != nil {
		l.line = at.Position.Line
	}
	switch n := n.(type) {
	case *ast.StringNode:
		l.name = n.Value
	case *ast.LiteralNode:
		l.name = n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		l.name = n.GetToken().Value
	}
	return nil
}

// parseConfig reads "merge: required_statuses: [..]" from a configuration
// file and lets everything else in it be. Anything wrong is a *configError
// that names file, line and reason.
func parseConfig(file string, body []byte) (list []string, err error) {
	bad := func(line int, format string, args ...any) error {
		where := file
		if line > 0 {
			where += fmt.Sprintf(": line %d", line)
		}
		return &configError{where + ": " + fmt.Sprintf(format, args...)}
	}
	defer func() {
		// The text is a stranger's; no parser is trusted that far.
		if p := recover(); p != nil {
			list, err = nil, bad(0, "it cannot be read as YAML")
		}
	}()
	var doc struct {
		Merge struct {
			RequiredStatuses []listed `yaml:"required_statuses"`
		} `yaml:"merge"`
	}
	if !utf8.Valid(body) {
		return nil, bad(0, "it is not text in UTF-8")
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, nil
	}
	if err := yaml.Unmarshal(body, &doc); err != nil {
		var where yaml.Error
		if errors.As(err, &where) && where.GetToken() != nil && where.GetToken().Position != nil {
			return nil, bad(where.GetToken().Position.Line, "%s", oneLine(where.GetMessage(), 300))
		}
		return nil, bad(0, "%s", oneLine(err.Error(), 300))
	}
	names := doc.Merge.RequiredStatuses
	if len(names) > maxRequired {
		return nil, bad(names[maxRequired].line, "merge.required_statuses names %d statuses, more than %d", len(names), maxRequired)
	}
	for i, l := range names {
		if l.line == 0 {
			l.line = lineOfEntry(body, i)
		}
		switch {
		case strings.TrimSpace(l.name) == "" || strings.ContainsFunc(l.name, unicode.IsControl):
			return nil, bad(l.line, "merge.required_statuses, entry %d, is not the name of a status", i+1)
		case len(l.name) > maxName:
			return nil, bad(l.line, "merge.required_statuses, entry %d, is longer than %d bytes", i+1, maxName)
		}
		list = append(list, l.name)
	}
	return list, nil
}

// lineOfEntry is where a list's entry stands, for one that is nothing at all
// and so was not decoded; 0 if nobody knows.
func lineOfEntry(body []byte, i int) int {
	path, err := yaml.PathString(fmt.Sprintf("$.merge.required_statuses[%d]", i))
	if err != nil {
		return 0
	}
	node, err := path.ReadNode(bytes.NewReader(body))
	if err != nil || node.GetToken() == nil || node.GetToken().Position == nil {
		return 0
	}
	return node.GetToken().Position.Line
}
