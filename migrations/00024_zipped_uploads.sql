-- A report that waits to be read is kept compressed, if that makes it smaller.

-- +goose Up
ALTER TABLE test_uploads ADD COLUMN zipped boolean NOT NULL DEFAULT false; -- the body is compressed by us

-- +goose Down
ALTER TABLE test_uploads DROP COLUMN zipped;
