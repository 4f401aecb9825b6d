-- Which programs may still run on this schema. Migrations only add, so a program
-- that knows fewer of them runs on it too, and a release can be taken back. The
-- migration after which that is no longer so raises the number to its own.

-- +goose Up
CREATE TABLE schema_needs (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    version bigint NOT NULL CHECK (version > 0) -- the newest migration that a program must know at least
);
INSERT INTO schema_needs (version) VALUES (1);

-- +goose Down
DROP TABLE schema_needs;
