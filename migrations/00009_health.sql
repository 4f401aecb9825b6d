-- What has happened in each queue hour by hour, for charts: counted from its
-- timeline when somebody looks, and every minute, so that a chart of months
-- costs as much as its hours and not as its moves.

-- +goose Up
CREATE TABLE queue_hours (
    queue_id bigint NOT NULL REFERENCES queues ON DELETE CASCADE,
    hour     timestamptz NOT NULL,
    what     text NOT NULL CHECK (what IN ('merged', 'failed', 'cancelled', 'restart', 'wait', 'test')),
    bucket   smallint NOT NULL, -- of how long it took, see queue.BucketOf; -1 = it took no time
    n        bigint NOT NULL CHECK (n > 0),
    PRIMARY KEY (queue_id, hour, what, bucket)
);

-- How far each queue has been counted. The rows of a queue's timeline are
-- numbered in the order in which they are committed: none is added behind.
CREATE TABLE queue_hours_counted (
    queue_id bigint PRIMARY KEY REFERENCES queues ON DELETE CASCADE,
    counted  bigint NOT NULL -- the last timeline.id that is in queue_hours
);

-- The runs of a queue by time, without reading them.
CREATE INDEX runs_asked ON runs (queue_id, asked_at) INCLUDE (state);

-- +goose Down
DROP INDEX runs_asked;
DROP TABLE queue_hours_counted;
DROP TABLE queue_hours;
