// Package migrations holds the database's schema as numbered SQL files that
// goose runs in order. Package db runs them, under a lock, at start.
//
// Rules, some of them held by this package's test:
//
//   - a migration that was released is never edited; migrations only add
//   - a new column of an existing table is nullable or has a DEFAULT, because
//     the program before and the program after both run on it
//   - every Up has its Down
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
