-- Tests that go on under another name.

-- +goose Up
ALTER TABLE test_cases
    ADD COLUMN stable_since date, -- the day on which it first ran in a complete run of a stable branch; NULL: never
    ADD COLUMN stable_on    date; -- and the last such day
CREATE INDEX test_cases_appeared ON test_cases (stable_since) WHERE stable_since IS NOT NULL;

-- Ids that tests had before they were renamed.
CREATE TABLE test_aliases (
    repository_id bigint NOT NULL REFERENCES repositories,
    test_id       uuid NOT NULL,
    case_id       bigint NOT NULL REFERENCES test_cases ON DELETE CASCADE,
    since         timestamptz NOT NULL, -- when that was found
    PRIMARY KEY (repository_id, test_id)
);
CREATE INDEX test_aliases_case ON test_aliases (case_id);

ALTER TABLE test_changes DROP CONSTRAINT test_changes_what_check;
ALTER TABLE test_changes ADD CONSTRAINT test_changes_what_check CHECK (what IN ('status', 'quarantine', 'name'));

-- +goose Down
DELETE FROM test_changes WHERE what = 'name';
ALTER TABLE test_changes DROP CONSTRAINT test_changes_what_check;
ALTER TABLE test_changes ADD CONSTRAINT test_changes_what_check CHECK (what IN ('status', 'quarantine'));
DROP TABLE test_aliases;
DROP INDEX test_cases_appeared;
ALTER TABLE test_cases DROP COLUMN stable_since, DROP COLUMN stable_on;
