-- What the pages of tests are read with.

-- +goose Up
CREATE INDEX test_cases_notable ON test_cases (repository_id, status_at DESC, id DESC)
    WHERE status <> 'HEALTHY' OR suspected OR quarantined_at IS NOT NULL OR setting <> 'AUTO_QUARANTINE';
CREATE INDEX test_uploads_list ON test_uploads (repository_id, id DESC);

-- +goose Down
DROP INDEX test_uploads_list, test_cases_notable;
