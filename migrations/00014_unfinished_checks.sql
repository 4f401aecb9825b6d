-- The commit that carries our unfinished status check of a pull request, so that
-- it is completed there when the pull request moves on.

-- +goose Up
CREATE TABLE unfinished_checks (
    queue_id bigint NOT NULL REFERENCES queues ON DELETE CASCADE,
    pr       bigint NOT NULL CHECK (pr BETWEEN 1 AND 4294967295),
    commit   text NOT NULL CHECK (commit <> ''),
    PRIMARY KEY (queue_id, pr)
);

-- +goose Down
DROP TABLE unfinished_checks;
