-- The analytics CLI's way of uploading test reports.

-- +goose Up
ALTER TABLE test_settings ADD COLUMN public_id text UNIQUE; -- under which everybody may upload; NULL: nobody without a token may

-- What was put at an address that was given out for one bundle. Addresses are
-- valid for an hour.
CREATE TABLE test_bundles (
    id            uuid PRIMARY KEY,
    repository_id bigint NOT NULL REFERENCES repositories,
    content       bytea NOT NULL, -- its hash
    put_at        timestamptz NOT NULL,
    upload_id     bigint
);

-- +goose Down
DROP TABLE test_bundles;
ALTER TABLE test_settings DROP COLUMN public_id;
