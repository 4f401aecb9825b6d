-- What test results make of a required check that failed.

-- +goose Up
ALTER TABLE runs
    ADD COLUMN results jsonb NOT NULL DEFAULT '[]', -- of the tests, by upload
    ADD COLUMN crowded boolean NOT NULL DEFAULT false, -- there were more than are kept
    ADD COLUMN cleared text[] NOT NULL DEFAULT '{}'; -- checks that failed and were passed by quarantine
ALTER TABLE checks
    ADD COLUMN earlier bigint NOT NULL DEFAULT 0; -- attempts that ended before this one

-- The checks whose jobs upload test results, and when they last did, to a day.
CREATE TABLE test_checks (
    repository_id bigint NOT NULL REFERENCES repositories,
    name          text NOT NULL CHECK (name <> ''),
    seen_at       timestamptz NOT NULL,
    PRIMARY KEY (repository_id, name)
);

-- +goose Down
DROP TABLE test_checks;
ALTER TABLE checks DROP COLUMN earlier;
ALTER TABLE runs DROP COLUMN results, DROP COLUMN crowded, DROP COLUMN cleared;
