package db

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lib/pq"

	"signalbox/flaky"
)

// owners gives tests their owners by the repository's CODEOWNERS, which is that
// of the last trusted upload of a stable branch that brought one: all tests
// when it has changed, else those that are new.
func (e *testEntry) owners() error {
	var stored []string
	if err := e.tx.SelectContext(e.ctx, &stored, `SELECT codeowners FROM test_settings WHERE repository_id = $1`, e.upload.Repository); err != nil {
		return fmt.Errorf("read the owners of a repository: %w", err)
	}
	text := strings.Join(stored, "")
	dialect := flaky.GitHub
	if host, _, _ := strings.Cut(e.upload.Repo, "/"); strings.Contains(host, "gitlab") {
		dialect = flaky.GitLab
	}
	changed := e.read.Owners != "" && e.run.Kind == flaky.Stable && e.run.Trusted && clean(e.read.Owners) != text
	if changed {
		text = clean(e.read.Owners)
		if _, err := e.tx.ExecContext(e.ctx, `
			INSERT INTO test_settings (repository_id, automatic, codeowners, dialect) VALUES ($1, false, $2, $3)
			ON CONFLICT (repository_id) DO UPDATE SET codeowners = excluded.codeowners, dialect = excluded.dialect`, e.upload.Repository, text, string(dialect)); err != nil {
			return fmt.Errorf("store the owners of a repository: %w", err)
		}
	}
	if text == "" || !changed && len(e.fresh) == 0 {
		return nil
	}
	owners, problems := flaky.ParseOwners(text, dialect)
	if changed && len(problems) > 0 {
		e.read.Notes = append(e.read.Notes, flaky.Note{Code: "BAD_CODEOWNERS", Count: len(problems),
			Text: fmt.Sprintf(flaky.Worded(len(problems), "%d {line of CODEOWNERS is not valid and is|lines of CODEOWNERS are not valid and are} left out, first: %v."), len(problems), problems[0])})
	}
	var rows []struct {
		ID   int64  `json:"id"`
		File string `json:"file"`
	}
	if err := e.tx.SelectContext(e.ctx, &rows, `
		SELECT id, file FROM test_cases WHERE repository_id = $1 AND file <> '' AND ($2 OR id = ANY($3))`, e.upload.Repository, changed, pq.Array(e.fresh)); err != nil {
		return fmt.Errorf("read the files of tests: %w", err)
	}
	type owned struct {
		ID         int64    `json:"id"`
		Codeowners []string `json:"codeowners"`
	}
	var found []owned
	known := map[string][]string{} // many tests share a file
	for _, r := range rows {
		if _, ok := known[r.File]; !ok {
			known[r.File] = append([]string{}, owners.Of(r.File)...)
		}
		found = append(found, owned{r.ID, known[r.File]})
	}
	for part := range slices.Chunk(found, 5000) {
		text, err := encode(part)
		if err != nil {
			return err
		}
		if _, err := e.tx.ExecContext(e.ctx, `
			UPDATE test_cases t SET codeowners = n.codeowners FROM json_populate_recordset(NULL::test_cases, $1) n
			WHERE t.id = n.id AND t.codeowners <> n.codeowners`, text); err != nil {
			return fmt.Errorf("store the owners of tests: %w", err)
		}
	}
	return nil
}
