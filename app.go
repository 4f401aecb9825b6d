// Package signalbox holds the manifest of the GitHub App, for the program and
// for whoever makes the App by hand.
package signalbox

import _ "embed"

// Manifest is app.yml.
//
//go:embed app.yml
var Manifest []byte
