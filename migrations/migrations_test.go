package migrations_test

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"signalbox/migrations"
)

// files reads every migration, in order.
func files(t *testing.T) map[string]string {
	t.Helper()
	names, err := fs.Glob(migrations.FS, "*")
	if err != nil || len(names) == 0 {
		t.Fatalf("migrations: %v, %v", names, err)
	}
	texts := map[string]string{}
	for _, name := range names {
		text, err := migrations.FS.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	return texts
}

func TestMigrationsAreNumberedWithoutGaps(t *testing.T) {
	t.Parallel()
	texts := files(t)
	for i := 1; i <= len(texts); i++ {
		found := 0
		for name := range texts {
			if strings.HasPrefix(name, fmt.Sprintf("%05d_", i)) && strings.HasSuffix(name, ".sql") {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%d migrations have number %d", found, i)
		}
	}
}

func TestMigrationsGoBothWays(t *testing.T) {
	t.Parallel()
	for name, text := range files(t) {
		up, down := strings.Index(text, "-- +goose Up"), strings.Index(text, "-- +goose Down")
		if up < 0 || down < up || strings.TrimSpace(text[down+len("-- +goose Down"):]) == "" {
			t.Errorf("%s needs an Up and then a Down with something in it", name)
		}
	}
}

// The program before a migration and the one after it run on the same
// database for a while: the old one inserts rows without the new column.
func TestNewColumnsHaveADefaultOrMayBeNull(t *testing.T) {
	t.Parallel()
	for name, text := range files(t) {
		for _, problem := range riskyColumns(text) {
			t.Errorf("%s: %s: give it a DEFAULT, or allow NULL", name, problem)
		}
	}
}

var (
	comment = regexp.MustCompile(`--[^\n]*|(?s:/\*.*?\*/)`)
	action  = regexp.MustCompile(`(?is)\bADD\s+COLUMN\s+(?:IF\s+NOT\s+EXISTS\s+)?(.*?)(?:;|\z|,\s*(?:ADD|DROP|ALTER)\b)`)
	notNull = regexp.MustCompile(`(?i)\bNOT\s+NULL\b|\bPRIMARY\s+KEY\b`)
	preset  = regexp.MustCompile(`(?i)\bDEFAULT\b|\bGENERATED\b`)
)

// riskyColumns are the columns that an ALTER TABLE adds as NOT NULL without a
// DEFAULT.
func riskyColumns(sql string) []string {
	sql = comment.ReplaceAllString(sql, "")
	var risky []string
	for len(sql) > 0 {
		at := action.FindStringSubmatchIndex(sql)
		if at == nil {
			break
		}
		column := strings.Join(strings.Fields(sql[at[2]:at[3]]), " ")
		if notNull.MatchString(column) && !preset.MatchString(column) {
			risky = append(risky, column)
		}
		sql = sql[at[3]:]
	}
	return risky
}

func TestRiskyColumnsAreRecognised(t *testing.T) {
	t.Parallel()
	tests := []struct {
		sql  string
		want int
	}{
		{"CREATE TABLE t (a int NOT NULL);", 0},
		{"ALTER TABLE t ADD COLUMN a int;", 0},
		{"ALTER TABLE t ADD COLUMN a int NOT NULL DEFAULT 0;", 0},
		{"ALTER TABLE t ADD COLUMN a int DEFAULT 0 NOT NULL", 0},
		{"-- ALTER TABLE t ADD COLUMN a int NOT NULL;", 0},
		{"ALTER TABLE t ADD COLUMN a int NOT NULL;", 1},
		{"alter table t\n\tadd column if not exists a int\n\tnot null", 1},
		{"ALTER TABLE t ADD COLUMN a int NOT NULL -- DEFAULT 0\n;", 1},
		{"ALTER TABLE t ADD COLUMN a int NOT NULL, ADD COLUMN b int NOT NULL DEFAULT 0;", 1},
		{"ALTER TABLE t ADD COLUMN a int DEFAULT 0, ADD COLUMN b int NOT NULL;", 1},
		{"ALTER TABLE t ADD COLUMN a numeric(1, 2) NOT NULL;", 1},
	}
	for _, tt := range tests {
		if got := riskyColumns(tt.sql); len(got) != tt.want {
			t.Errorf("%s: found %q, want %d", tt.sql, got, tt.want)
		}
	}
}
