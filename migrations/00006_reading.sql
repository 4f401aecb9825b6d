-- What programs ask about queues: what happened lately, counters that only
-- grow, and lists that are turned page by page.

-- +goose Up

-- The timeline of a queue by time, for "the last hour", and by number, for
-- what was added since it was last counted.
CREATE INDEX timeline_at ON timeline (queue_id, at);
CREATE INDEX timeline_added ON timeline (queue_id, id);

-- What has happened in a queue since it was made, up to one row of its
-- timeline: counted on when somebody reads the counters, so that old months of
-- the timeline may be dropped and decisions do not count. The rows of a queue
-- are numbered in the order in which they are committed, because each is
-- written under the lock of the queue's row: none is ever added behind.
CREATE TABLE queue_totals (
    queue_id bigint PRIMARY KEY REFERENCES queues ON DELETE CASCADE,
    counted  bigint NOT NULL, -- the last timeline.id that is in totals
    totals   jsonb NOT NULL
);

-- Secrets of this installation that it makes itself, such as the key with
-- which page tokens are signed.
CREATE TABLE own_secrets (
    name   text PRIMARY KEY,
    secret bytea NOT NULL CHECK (octet_length(secret) >= 32)
);

-- +goose Down
DROP TABLE own_secrets;
DROP TABLE queue_totals;
DROP INDEX timeline_added;
DROP INDEX timeline_at;
