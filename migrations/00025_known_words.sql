-- Failures on pull requests with words that are known are evidence, too, and what
-- fails in company counts half.

-- +goose Up
ALTER TABLE test_evidence DROP CONSTRAINT test_evidence_kind_check;
ALTER TABLE test_evidence ADD CONSTRAINT test_evidence_kind_check CHECK (kind IN ('same_code', 'lone_failure', 'distinct_pull_request', 'known_words'));
ALTER TABLE test_evidence ADD COLUMN crowded boolean; -- NULL: not, as programs before this say

-- +goose Down
ALTER TABLE test_evidence DROP COLUMN crowded;
DELETE FROM test_evidence WHERE kind = 'known_words';
ALTER TABLE test_evidence DROP CONSTRAINT test_evidence_kind_check;
ALTER TABLE test_evidence ADD CONSTRAINT test_evidence_kind_check CHECK (kind IN ('same_code', 'lone_failure', 'distinct_pull_request'));
