-- By what a queue decides what is tested on top of what, and how a group stands
-- that is tested out of everybody's base. How submissions ended is read to
-- estimate who will fail: the newest of a queue, from an index of the endings alone.

-- +goose Up
ALTER TABLE queues ADD COLUMN speculation text NOT NULL DEFAULT 'fixed' CHECK (speculation IN ('fixed', 'adaptive'));
ALTER TABLE groups ADD COLUMN probation text NOT NULL DEFAULT '' CHECK (probation IN ('', 'on', 'overtaken', 'suspect', 'passed'));
CREATE INDEX timeline_endings ON timeline (queue_id, id) WHERE to_state IN ('merged', 'failed');

-- +goose Down
DROP INDEX timeline_endings;
ALTER TABLE groups DROP COLUMN probation;
ALTER TABLE queues DROP COLUMN speculation;
