-- Every move of every entry, append only. Months are partitions, so that old
-- ones can be dropped whole. Partitions are made ahead by timeline_month; the
-- default partition takes what comes before its month was made, so that an
-- insert never fails.

-- +goose Up
CREATE SEQUENCE timeline_ids;

CREATE TABLE timeline (
    id          bigint NOT NULL DEFAULT nextval('timeline_ids'),
    queue_id    bigint NOT NULL REFERENCES queues ON DELETE CASCADE,
    entry_id    uuid NOT NULL,
    pr          bigint NOT NULL CHECK (pr BETWEEN 1 AND 4294967295),
    submission  bigint NOT NULL CHECK (submission > 0),
    from_state  text NOT NULL,
    to_state    text NOT NULL,
    at          timestamptz NOT NULL,
    reason      text NOT NULL CHECK (reason <> ''),
    message     text NOT NULL,
    actor_login text NOT NULL,
    actor_id    bigint NOT NULL,
    actor_bot   boolean NOT NULL,
    run_id      text NOT NULL,
    PRIMARY KEY (id, at),
    -- queue.Transitions, once more
    CONSTRAINT legal_moves CHECK ((from_state, to_state) IN (
        ('', 'not_ready'), ('merged', 'not_ready'), ('failed', 'not_ready'), ('cancelled', 'not_ready'),
        ('not_ready', 'pending'), ('not_ready', 'cancelled'), ('not_ready', 'merged'),
        ('pending', 'testing'), ('pending', 'merged'), ('pending', 'cancelled'), ('pending', 'failed'),
        ('testing', 'pending'), ('testing', 'tests_passed'), ('testing', 'pending_failure'),
        ('testing', 'cancelled'), ('testing', 'failed'), ('testing', 'merged'),
        ('pending_failure', 'pending'), ('pending_failure', 'tests_passed'), ('pending_failure', 'failed'),
        ('pending_failure', 'cancelled'), ('pending_failure', 'merged'),
        ('tests_passed', 'merged'), ('tests_passed', 'pending'), ('tests_passed', 'failed'), ('tests_passed', 'cancelled')
    ))
) PARTITION BY RANGE (at);
CREATE INDEX timeline_pr ON timeline (queue_id, pr, id);

CREATE TABLE timeline_default PARTITION OF timeline DEFAULT;

-- timeline_month makes the partition of the month (in UTC) that a moment is
-- in, unless it exists, and moves rows that came too early into it.
-- +goose StatementBegin
CREATE FUNCTION timeline_month(moment timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    first timestamptz := date_trunc('month', moment AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
    next  timestamptz := (date_trunc('month', moment AT TIME ZONE 'UTC') + interval '1 month') AT TIME ZONE 'UTC';
    part  text := 'timeline_' || to_char(moment AT TIME ZONE 'UTC', 'YYYY_MM');
BEGIN
    IF to_regclass(part) IS NOT NULL THEN
        RETURN;
    END IF;
    LOCK TABLE timeline IN ACCESS EXCLUSIVE MODE; -- one at a time
    IF to_regclass(part) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE timeline INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part);
    EXECUTE format('WITH early AS (DELETE FROM timeline_default WHERE at >= %L AND at < %L RETURNING *) INSERT INTO %I SELECT * FROM early', first, next, part);
    EXECUTE format('ALTER TABLE timeline ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', part, first, next);
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION timeline_month;
DROP TABLE timeline;
DROP SEQUENCE timeline_ids;
