-- Stacks: pull requests that land together, as one entry, that of the topmost.

-- +goose Up

ALTER TABLE entries
    ADD COLUMN stack jsonb NOT NULL DEFAULT '[]', -- those beneath the entry's own, the lowest first
    ADD COLUMN stack_title text NOT NULL DEFAULT '',
    -- queue.Entry.Onto: the branch that it would land on; '' = its stack is not ready
    ADD COLUMN onto text NOT NULL DEFAULT '';
UPDATE entries SET onto = base;

-- The pull requests in the stacks of active entries, to find those by them.
CREATE TABLE stack_layers (
    queue_id bigint NOT NULL REFERENCES queues ON DELETE CASCADE,
    pr       bigint NOT NULL CHECK (pr BETWEEN 1 AND 4294967295),
    head     text NOT NULL,
    entry_id uuid NOT NULL REFERENCES entries ON DELETE CASCADE,
    PRIMARY KEY (queue_id, pr) -- in one stack at a time
);
CREATE INDEX stack_layers_head ON stack_layers (head);
CREATE INDEX stack_layers_entry ON stack_layers (entry_id);

-- +goose Down
DROP TABLE stack_layers;
ALTER TABLE entries DROP COLUMN stack, DROP COLUMN stack_title, DROP COLUMN onto;
