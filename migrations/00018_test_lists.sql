-- What lists of tests and of test reports need.

-- +goose Up
ALTER TABLE test_cases ADD COLUMN ticket_link text NOT NULL DEFAULT ''; -- to the ticket; '' is unknown
CREATE INDEX test_uploads_failed ON test_uploads (repository_id, at) WHERE failed > 0;

-- +goose Down
DROP INDEX test_uploads_failed;
ALTER TABLE test_cases DROP COLUMN ticket_link;
