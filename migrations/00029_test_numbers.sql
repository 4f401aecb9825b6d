-- +goose Up
-- The numbers of tests are remembered by the programs that enter reports. A rename gives a number to another name; whoever
-- remembers less than all renames asks again.
ALTER TABLE test_settings ADD COLUMN renames bigint NOT NULL DEFAULT 0;
-- Those whose next pass may change something: a few of a repository, looked for with every report.
CREATE INDEX test_cases_watched ON test_cases (repository_id) WHERE watched;

-- +goose Down
DROP INDEX test_cases_watched;
ALTER TABLE test_settings DROP COLUMN renames;
