-- In the lanes of an adaptive queue a group is also tested without somebody who is ahead
-- of it and may well fail. Such a run is not its group's until the group takes it over.
-- An older program neither begins nor ends one. What it lands it does not note as seen by
-- hedges, and one that lacks it is not taken over.

-- +goose Up
ALTER TABLE runs ADD COLUMN hedge text NOT NULL DEFAULT ''; -- the entry that is left out
CREATE INDEX runs_hedges ON runs (queue_id) WHERE hedge <> '' AND state <> 'stopped';
DROP INDEX runs_one_live_per_group;
CREATE UNIQUE INDEX runs_one_live_per_group ON runs (queue_id, group_id) WHERE state IN ('building', 'testing') AND hedge = '';

-- +goose Down
UPDATE runs SET state = 'stopped', ended_at = COALESCE(ended_at, now()) WHERE hedge <> '';
DROP INDEX runs_one_live_per_group;
CREATE UNIQUE INDEX runs_one_live_per_group ON runs (queue_id, group_id) WHERE state IN ('building', 'testing');
DROP INDEX runs_hedges;
ALTER TABLE runs DROP COLUMN hedge;
