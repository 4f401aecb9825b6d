-- What a look at the set-up of a queue on its host found.

-- +goose Up
ALTER TABLE queues ADD COLUMN preflight jsonb NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE queues DROP COLUMN preflight;
