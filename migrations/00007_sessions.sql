-- People who signed in to the dashboard.

-- +goose Up
CREATE TABLE sessions (
    hash       bytea PRIMARY KEY CHECK (octet_length(hash) = 32), -- SHA-256 of the secret in the browser's cookie
    login      text NOT NULL,
    user_id    bigint NOT NULL CHECK (user_id > 0), -- the host's number: rights go by it
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX sessions_expiry ON sessions (expires_at);

-- +goose Down
DROP TABLE sessions;
