-- Where failures are forgiven that are flakes, one of an adaptive queue is tested once more,
-- alone, before it counts. That it is so is remembered. An older program does not know
-- and blames a pull request that was tested alone for its first failure, as it did.

-- +goose Up
ALTER TABLE groups ADD COLUMN confirming boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE groups DROP COLUMN confirming;
