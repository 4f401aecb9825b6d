-- What is due, and what ended last, is found without reading all of it: an
-- installation may have a hundred thousand queues of which a few have something to
-- do, and a queue hundreds of thousands of pull requests that have ended.

-- +goose Up
CREATE INDEX queues_wake ON queues (wake_at) WHERE held_until IS NULL;
CREATE INDEX queues_held ON queues (held_until) WHERE held_until IS NOT NULL;
CREATE INDEX subscribers_held ON subscribers (held_until) WHERE held_until IS NOT NULL;
CREATE INDEX subscribers_quiet ON subscribers (quiet_until) WHERE quiet_until IS NOT NULL;
CREATE INDEX entries_ended ON entries (queue_id, state_changed_at DESC, pr DESC) WHERE state IN ('merged', 'failed', 'cancelled');

-- +goose Down
DROP INDEX entries_ended;
DROP INDEX subscribers_quiet;
DROP INDEX subscribers_held;
DROP INDEX queues_held;
DROP INDEX queues_wake;
