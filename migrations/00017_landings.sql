-- What landed, as it was found when it landed: kept for good, so that anybody
-- can compare what is on a branch with what was tested. Rows are only added.

-- +goose Up
CREATE TABLE landings (
    queue_id     bigint NOT NULL REFERENCES queues ON DELETE CASCADE,
    seq          bigint NOT NULL CHECK (seq > 0),
    landing      bigint NOT NULL CHECK (landing > 0),
    entry_id     uuid NOT NULL,
    submission   bigint NOT NULL CHECK (submission > 0),
    pr           bigint NOT NULL CHECK (pr BETWEEN 1 AND 4294967295),
    head         text NOT NULL CHECK (head <> ''),
    run_id       text NOT NULL, -- '' = landed without one
    merge_method text NOT NULL CHECK (merge_method IN ('merge_commit', 'squash', 'rebase')),
    landing_mode text NOT NULL CHECK (landing_mode IN ('exact', 'host')),
    on_commit    text NOT NULL,
    commit       text NOT NULL CHECK (commit <> ''),
    tree         text NOT NULL CHECK (tree <> ''),
    tested_tree  text NOT NULL,
    recomputed   boolean NOT NULL,
    last         boolean NOT NULL,
    differs      text NOT NULL,
    landed_at    timestamptz NOT NULL,
    PRIMARY KEY (queue_id, seq),
    UNIQUE (queue_id, entry_id, submission), -- a submission lands once
    CONSTRAINT tested_by_a_run CHECK (run_id = '' OR tested_tree <> ''),
    CONSTRAINT as_tested_or_said CHECK (run_id = '' OR recomputed OR differs <> '' OR tree = tested_tree)
);

-- +goose Down
DROP TABLE landings;
