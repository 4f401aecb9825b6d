-- The moves that queue.Transitions allows, as one list that Postgres reads at
-- once: it prepares a constraint for every statement that inserts, and two dozen
-- comparisons of pairs took it longer than the rest of the insert. Rows that are
-- there have passed the same rule and are not read again.

-- +goose Up
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

-- +goose Down
ALTER TABLE timeline DROP CONSTRAINT legal_moves;
ALTER TABLE timeline ADD CONSTRAINT legal_moves CHECK ((from_state, to_state) IN (
    ('', 'not_ready'), ('merged', 'not_ready'), ('failed', 'not_ready'), ('cancelled', 'not_ready'),
    ('not_ready', 'pending'), ('not_ready', 'cancelled'), ('not_ready', 'merged'),
    ('pending', 'testing'), ('pending', 'merged'), ('pending', 'cancelled'), ('pending', 'failed'),
    ('testing', 'pending'), ('testing', 'tests_passed'), ('testing', 'pending_failure'),
    ('testing', 'cancelled'), ('testing', 'failed'), ('testing', 'merged'),
    ('pending_failure', 'pending'), ('pending_failure', 'tests_passed'), ('pending_failure', 'failed'),
    ('pending_failure', 'cancelled'), ('pending_failure', 'merged'),
    ('tests_passed', 'merged'), ('tests_passed', 'pending'), ('tests_passed', 'failed'), ('tests_passed', 'cancelled')
));
