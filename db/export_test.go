package db

// HappenedLately is the statement of Measures about the last hour, for a test
// of how Postgres goes about it.
var HappenedLately = happenedLately

// HappenedSince is the one that counts on.
var HappenedSince = happenedSince
