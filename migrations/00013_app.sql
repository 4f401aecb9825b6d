-- The App that a server made for itself: one for each host.

-- +goose Up
CREATE TABLE apps (
    host       text PRIMARY KEY CHECK (host <> '' AND host = lower(host)),
    sealed     bytea NOT NULL, -- its secrets, encrypted with a key that is not in this database
    created_at timestamptz NOT NULL
);

-- +goose Down
DROP TABLE apps;
