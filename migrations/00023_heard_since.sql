-- From when on commands in comments are known by the comment. What was said
-- before was heard by an older program, which remembered webhooks only: to look
-- for it again would be to obey it twice.

-- +goose Up
ALTER TABLE queues ADD COLUMN heard_since timestamptz NOT NULL DEFAULT now();

-- +goose Down
ALTER TABLE queues DROP COLUMN heard_since;
