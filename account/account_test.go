package account

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"
)

// A scope includes those before it, and a word that is no scope allows nothing.
func TestScopes(t *testing.T) {
	t.Parallel()
	for i, s := range Scopes {
		for j, want := range Scopes {
			if got := s.Allows(want); got != (i >= j) {
				t.Errorf("%s allows %s: %t", s, want, got)
			}
		}
		if parsed, err := ParseScope(string(s)); err != nil || parsed != s {
			t.Errorf("%q parses as %q, %v", s, parsed, err)
		}
		if Scope("owner").Allows(s) || Scope("").Allows(s) {
			t.Errorf("what is no scope allows %s", s)
		}
	}
	for _, text := range []string{"", "Admin", "owner", "read "} {
		if _, err := ParseScope(text); err == nil || !strings.Contains(err.Error(), "read, submit, admin") {
			t.Errorf("%q is taken for a scope, or the error does not say what there is: %v", text, err)
		}
	}
}

func TestATokenIsValidUntilItExpiresOrIsRevoked(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		token Token
		want  bool
	}{
		"for ever":        {Token{}, true},
		"not yet expired": {Token{ExpiresAt: now.Add(time.Second)}, true},
		"expiring now":    {Token{ExpiresAt: now}, false},
		"expired":         {Token{ExpiresAt: now.Add(-time.Hour)}, false},
		"revoked":         {Token{RevokedAt: now.Add(-time.Hour), ExpiresAt: now.Add(time.Hour)}, false},
	} {
		if got := c.token.Valid(now); got != c.want {
			t.Errorf("%s: valid %t, want %t", name, got, c.want)
		}
	}
}

// Secrets are long, never alike, recognisable to scanners, and looked up by a
// hash that does not tell them.
func TestSecrets(t *testing.T) {
	t.Parallel()
	a, err := NewSecret()
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewSecret()
	if err != nil {
		t.Fatal(err)
	}
	if a == b || !strings.HasPrefix(a, "sbx_") || len(a) != len("sbx_")+43 {
		t.Errorf("secrets %q and %q", a, b)
	}
	if h := Hash(a); h != sha256.Sum256([]byte(a)) || h == Hash(b) {
		t.Error("a hash is not that of its secret")
	}
	if _, err := newSecret(bytes.NewReader(make([]byte, 31))); err == nil {
		t.Error("a secret was made of too little chance")
	}
	if _, err := newSecret(failing{}); !errors.Is(err, errNoChance) {
		t.Errorf("no randomness: %v", err)
	}
}

var errNoChance = errors.New("no randomness")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errNoChance }

func TestTheSlugIsTheLoginInLowerCase(t *testing.T) {
	t.Parallel()
	if got := Slug("Acme-Corp"); got != "acme-corp" {
		t.Errorf("Slug is %q", got)
	}
}

// Nobody becomes an App by an address of their own choice.
func TestAnAppIsKnownByItsPicture(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]int64{
		"https://avatars.githubusercontent.com/in/15368?v=4": 15368,
		"https://avatars.githubusercontent.com/in/15368":     15368,
		"https://ghe.example/avatars/in/7?s=40&v=4":          7,
		"https://avatars.githubusercontent.com/u/15368?v=4":  0,
		"https://avatars.githubusercontent.com/u/1?x=/in/7":  0,
		"https://avatars.githubusercontent.com/u/1#/in/7":    0,
		"https://x/in/9999999999999999999":                   0,
		"javascript:/in/7":                                   0,
		"":                                                   0,
	} {
		if got := AppOfPicture(address); got != want {
			t.Errorf("%q: App %d, want %d", address, got, want)
		}
	}
}
