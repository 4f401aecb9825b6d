// Package docs holds the documents of Signalbox, so that a server shows its
// readers those of its own version, without the internet. README.md is their
// index. Parts of settings.md and metrics.md are written by tests, from the code.
package docs

import "embed"

// Files are the documents and their drawings.
//
//go:embed *.md images/*.svg
var Files embed.FS
