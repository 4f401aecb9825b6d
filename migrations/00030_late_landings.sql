-- A merge call that hung in the network may be carried out when its landing has
-- been given up. What was given up is remembered, so that it is recognised then: it
-- has landed, whatever was said of its submission before, and nobody saw its tree.

-- +goose Up
ALTER TABLE queues ADD COLUMN given_up jsonb NOT NULL DEFAULT '[]';
ALTER TABLE landings DROP CONSTRAINT landings_tree_check;
ALTER TABLE landings ADD CONSTRAINT late_or_seen CHECK (tree <> '' OR differs <> '') NOT VALID;
ALTER TABLE timeline DROP CONSTRAINT legal_moves;
ALTER TABLE timeline ADD CONSTRAINT legal_moves CHECK (from_state || '>' || to_state = ANY ('{
    >not_ready, merged>not_ready, failed>not_ready, cancelled>not_ready,
    not_ready>pending, not_ready>cancelled, not_ready>merged,
    pending>testing, pending>merged, pending>cancelled, pending>failed,
    testing>pending, testing>tests_passed, testing>pending_failure,
    testing>cancelled, testing>failed, testing>merged,
    pending_failure>pending, pending_failure>tests_passed, pending_failure>failed,
    pending_failure>cancelled, pending_failure>merged,
    tests_passed>merged, tests_passed>pending, tests_passed>failed, tests_passed>cancelled,
    failed>merged, cancelled>merged
}'::text[])) NOT VALID;
-- Nothing has ever written 'passed'.
ALTER TABLE groups DROP CONSTRAINT groups_probation_check;
ALTER TABLE groups ADD CONSTRAINT groups_probation_check CHECK (probation IN ('', 'on', 'overtaken', 'suspect'));

-- +goose Down
ALTER TABLE groups DROP CONSTRAINT groups_probation_check;
ALTER TABLE groups ADD CONSTRAINT groups_probation_check CHECK (probation IN ('', 'on', 'overtaken', 'suspect', 'passed'));
ALTER TABLE timeline DROP CONSTRAINT legal_moves;
ALTER TABLE timeline ADD CONSTRAINT legal_moves CHECK (from_state || '>' || to_state = ANY ('{
    >not_ready, merged>not_ready, failed>not_ready, cancelled>not_ready,
    not_ready>pending, not_ready>cancelled, not_ready>merged,
    pending>testing, pending>merged, pending>cancelled, pending>failed,
    testing>pending, testing>tests_passed, testing>pending_failure,
    testing>cancelled, testing>failed, testing>merged,
    pending_failure>pending, pending_failure>tests_passed, pending_failure>failed,
    pending_failure>cancelled, pending_failure>merged,
    tests_passed>merged, tests_passed>pending, tests_passed>failed, tests_passed>cancelled
}'::text[])) NOT VALID;
ALTER TABLE landings DROP CONSTRAINT late_or_seen;
UPDATE landings SET tree = 'unknown' WHERE tree = '';
ALTER TABLE landings ADD CONSTRAINT landings_tree_check CHECK (tree <> '');
ALTER TABLE queues DROP COLUMN given_up;
