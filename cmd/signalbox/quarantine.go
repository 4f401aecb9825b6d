package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"signalbox/api"
)

// quarantineCommands move what people decided about tests from and to files.
type quarantineCommands struct {
	Export quarantineExportCommand `cmd:"" help:"Print what people decided about tests, as a file that import takes."`
	Import quarantineImportCommand `cmd:"" help:"Decide about many tests at once, as a file says: about all of them, or none if something in it is wrong."`
}

// aboutTests says whose tests a command is about.
type aboutTests struct {
	connection `group:"connection"`
	Repo       string `env:"SIGNALBOX_REPO" group:"target" help:"Repository, as host/owner/name, or owner/name on github.com. Default: that of the CI job, or of the checkout around."`
	Org        string `env:"SIGNALBOX_ORG" help:"Slug of the organisation. Default: the owner of the repository, in lower case."`
}

// find finds the repository. more is what every request about it has.
func (a *aboutTests) find(ctx context.Context) (q *api.Queue, more map[string]any, err error) {
	c, err := a.client()
	if err != nil {
		return nil, nil, missing(err)
	}
	f, err := target{connection: a.connection, Repo: a.Repo}.place(ctx)
	if err != nil {
		return nil, nil, err
	}
	more = map[string]any{}
	if a.Org != "" {
		more["org_url_slug"] = a.Org
	}
	return &api.Queue{Client: c, Host: f.Host, Owner: f.Owner, Name: f.Name}, more, nil
}

// quarantineExportCommand prints decisions.
type quarantineExportCommand struct{ aboutTests }

// Run prints them. What is printed is JSON, whoever reads it.
func (e *quarantineExportCommand) Run(ctx context.Context, c console) error {
	q, more, err := e.find(ctx)
	if err != nil {
		return err
	}
	var file json.RawMessage
	if err := q.About(ctx, "flaky-tests/export-quarantine", more, &file); err != nil {
		return err
	}
	return printJSON(c, file)
}

// maxQuarantineFile bounds a file of decisions, in bytes: what a request may have.
const maxQuarantineFile = 20 << 20

// quarantineImportCommand imports decisions.
type quarantineImportCommand struct {
	aboutTests
	File string `arg:"" help:"File of decisions, as export prints it. - is standard input."`
	JSON bool   `name:"json" help:"Print the answer of the API, as JSON."`
}

// decisionFile is what is read of a file of decisions.
type decisionFile struct {
	Overrides json.RawMessage `json:"overrides"`
}

// importAnswer is what became of it.
type importAnswer struct {
	Changed int `json:"changed"`
	Unknown []struct {
		ID   string `json:"test_id"`
		Name string `json:"name"`
		File string `json:"file"`
	} `json:"unknown"`
}

// Run imports, and names the tests that the repository does not have.
func (i *quarantineImportCommand) Run(ctx context.Context, c console) error {
	file, err := i.read(c)
	if err != nil {
		return err
	}
	q, more, err := i.find(ctx)
	if err != nil {
		return err
	}
	more["overrides"] = file.Overrides
	var raw json.RawMessage
	if err := q.About(ctx, "flaky-tests/import-quarantine", more, &raw); err != nil {
		return err
	}
	if i.JSON {
		return printJSON(c, raw)
	}
	var a importAnswer
	if err := json.Unmarshal(raw, &a); err != nil {
		return &api.Stranger{Host: q.Server(), Err: err}
	}
	if _, err := fmt.Fprintf(c.out, "Decisions that are others now: %d. Tests that %s does not have: %d.\n", a.Changed, q.Repo(), len(a.Unknown)); err != nil {
		return err
	}
	for _, t := range a.Unknown {
		if _, err := fmt.Fprintf(c.out, "  %s %s %s\n", t.ID, t.File, t.Name); err != nil {
			return err
		}
	}
	return nil
}

func (i *quarantineImportCommand) read(c console) (f decisionFile, err error) {
	var from io.Reader = c.in
	if i.File != "-" {
		opened, err := os.Open(i.File)
		if err != nil {
			return f, fmt.Errorf("read the decisions: %w", err)
		}
		defer opened.Close()
		from = opened
	}
	if from == nil {
		return f, wrongUse("", "there is no standard input to read decisions from")
	}
	text, err := io.ReadAll(io.LimitReader(from, maxQuarantineFile+1))
	switch {
	case err != nil:
		return f, fmt.Errorf("read the decisions: %w", err)
	case len(text) > maxQuarantineFile:
		return f, fmt.Errorf("read the decisions: %s has more than %d MiB", i.File, maxQuarantineFile>>20)
	}
	if err := json.Unmarshal(text, &f); err != nil || len(f.Overrides) == 0 {
		return f, fmt.Errorf("read the decisions: %s is no file that quarantine export has printed: a JSON object with \"overrides\"", i.File)
	}
	return f, nil
}
