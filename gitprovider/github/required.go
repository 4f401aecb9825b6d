package github

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml"

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
		if q := (queue.Required{Name: name}); name != "" && name != ownCheck(target) && !slices.Contains(out, q) {
			out = append(out, q)
		}
	}
	return out
}

// parseConfig reads "merge: required_statuses: [..]" from a configuration
// file and lets everything else in it be. Anything wrong is a *configError.
func parseConfig(file string, body []byte) (list []string, err error) {
	bad := func(format string, args ...any) error {
		return &configError{file + ": " + fmt.Sprintf(format, args...)}
	}
	defer func() {
		// The text is a stranger's; no parser is trusted that far.
		if p := recover(); p != nil {
			list, err = nil, bad("it cannot be read as YAML")
		}
	}()
	var doc struct {
		Merge struct {
			RequiredStatuses []string `yaml:"required_statuses"`
		} `yaml:"merge"`
	}
	if len(strings.TrimSpace(string(body))) == 0 {
		return nil, nil
	}
	if err := yaml.Unmarshal(body, &doc); err != nil {
		var where yaml.Error
		if errors.As(err, &where) && where.GetToken() != nil && where.GetToken().Position != nil {
			return nil, bad("line %d: %s", where.GetToken().Position.Line, oneLine(where.GetMessage(), 300))
		}
		return nil, bad("%s", oneLine(err.Error(), 300))
	}
	list = doc.Merge.RequiredStatuses
	if len(list) > maxRequired {
		return nil, bad("merge.required_statuses names %d statuses, more than %d", len(list), maxRequired)
	}
	for i, name := range list {
		if strings.TrimSpace(name) == "" || len(name) > maxName || strings.ContainsFunc(name, unicode.IsControl) {
			return nil, bad("merge.required_statuses, entry %d is not the name of a status", i+1)
		}
	}
	return list, nil
}
