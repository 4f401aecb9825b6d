-- In an adaptive queue with lanes a run is built on what its group overlaps itself.
-- Where that was tested with more, its failure counts only once it is confirmed. An
-- older program takes such a run for one of its own, builds it anew where something is
-- ahead of it, and believes a failure where nothing is.

-- +goose Up
ALTER TABLE runs ADD COLUMN narrow boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE runs DROP COLUMN narrow;
