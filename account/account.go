// Package account holds the nouns that the edges share: organisations, the
// repositories they connected, App installations, API tokens and their
// scopes. It is pure: no storage, no network, no clock.
package account

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"time"
)

// Organization owns repositories, queues and tokens. Its slug is the
// org_url_slug of the API: the login of the account that installed the App, in
// lower case, or the name given to "token create --org".
type Organization struct {
	ID   int64
	Slug string
}

// Slug is how an account's login becomes an organisation's slug.
func Slug(login string) string { return strings.ToLower(login) }

// Installation is one installation of the App on an account of the host.
type Installation struct {
	ID        int64 // the host's number
	Host      string
	Account   string // login of the account that installed it
	Suspended bool
}

// Repository is a repository as the host names it in an installation.
type Repository struct {
	HostID        int64
	Host          string
	Owner         string
	Name          string
	DefaultBranch string
}

// Connection is a change of what the App may work on, as the host tells it.
// The store applies it: organisations and repositories that are new are made,
// those removed keep their history.
type Connection struct {
	Installation Installation
	// Deleted: the whole installation is gone.
	Deleted bool
	// Added and Removed are repositories of the installation. With Complete
	// set, Added is the whole list.
	Added, Removed []Repository
	Complete       bool
	// Renamed are repositories whose owner or name changed, under their HostID.
	Renamed []Repository
	// RulesChanged: rules of the whole account changed, so every queue on one
	// of its repositories looks again.
	RulesChanged bool `json:",omitempty"`
	// Permitted says that what the App may do there has changed.
	Permitted bool `json:",omitempty"`
}

// Scope is what a token may do; each includes those before it.
type Scope string

// The scopes.
const (
	Read   Scope = "read"
	Submit Scope = "submit" // submit, cancel, restart, targets, uploads
	Admin  Scope = "admin"  // queues
)

// Scopes lists the scopes from the least to the most.
var Scopes = []Scope{Read, Submit, Admin}

// ParseScope reads a scope's name.
func ParseScope(text string) (Scope, error) {
	for _, s := range Scopes {
		if string(s) == text {
			return s, nil
		}
	}
	return "", fmt.Errorf("scope %q is not one of read, submit, admin", text)
}

// Allows reports whether a token of scope s may do what needs the scope want.
func (s Scope) Allows(want Scope) bool { return rank(s) >= rank(want) && rank(s) > 0 }

func rank(s Scope) int {
	for i, known := range Scopes {
		if s == known {
			return i + 1
		}
	}
	return 0
}

// Token is an API token as it is kept: without its secret.
type Token struct {
	ID        int64
	Org       Organization
	Name      string
	Scope     Scope
	CreatedAt time.Time
	LastUsed  time.Time // zero = never; kept to the minute
	ExpiresAt time.Time // zero = never
	RevokedAt time.Time // zero = valid
}

// Valid reports whether the token may be used at that moment.
func (t Token) Valid(now time.Time) bool {
	return t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt))
}

// secretPrefix lets secret scanners recognise a leaked token.
const secretPrefix = "sbx_"

// NewSecret makes the secret of a new token: 256 random bits. It is shown
// once and never stored.
func NewSecret() (string, error) { return newSecret(rand.Reader) }

func newSecret(random io.Reader) (string, error) {
	var bits [32]byte
	if _, err := io.ReadFull(random, bits[:]); err != nil {
		return "", fmt.Errorf("make token: %w", err)
	}
	return secretPrefix + base64.RawURLEncoding.EncodeToString(bits[:]), nil
}

// Hash is what is stored of a secret, and by which it is looked up. A plain
// SHA-256 is enough because the secret itself is random. Looking up a hash
// says nothing useful to somebody who measures how long it takes.
func Hash(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }

// Right is what a person may do on a repository, as its host says; each
// includes those before it.
type Right int

// The rights.
const (
	NoRight    Right = iota
	ReadRight        // see it
	WriteRight       // push to it
	AdminRight       // change its settings
)

// Place is to whom a repository belongs, and its main branch.
type Place struct {
	Org           string // slug of the organisation
	DefaultBranch string // "" = the host has not said yet
}
