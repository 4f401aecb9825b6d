// Package migrations holds the database's schema as numbered SQL files that
// goose runs in order. Package db runs them, under a lock, at start.
//
// Rules, some of them held by this package's test:
//
//   - a migration that was released is never edited; migrations only add
//   - a new column of an existing table is nullable or has a DEFAULT, because
//     the program before and the program after both run on it
//   - the program before a migration runs on the schema after it, so that copies
//     are replaced one by one and a release can be taken back; a migration with
//     which that ends sets schema_needs.version to its own number, and older
//     programs refuse to start
//   - every Up has its Down. It is for development: who goes back takes the
//     older program, and leaves the schema as it is
//   - what must never be so is forbidden by a constraint, whatever code
//     forbids it too
//   - text is never NULL: ” says none. NULL says none for times, UUIDs and
//     references
package migrations

import "embed"

// FS holds the files, at its root.
//
//go:embed *.sql
var FS embed.FS
