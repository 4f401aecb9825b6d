package db_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/account"
	"signalbox/queue"
)

func TestTokensOpenTheirOrganisationUntilTheyEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hash := func(secret string) [32]byte { return account.Hash(secret) }
	create := func(secret string, scope account.Scope, expires time.Time) account.Token {
		t.Helper()
		token, err := w.CreateToken(t.Context(), w.org, secret, scope, hash(secret), expires)
		w.must(err)
		return token
	}
	plain := create("plain", account.Admin, time.Time{})
	short := create("short", account.Read, epoch.Add(time.Hour))
	gone := create("gone", account.Submit, time.Time{})
	w.must(w.RevokeToken(t.Context(), w.org.ID, gone.ID))
	tests := []struct {
		secret string
		at     time.Duration
		want   account.Scope // "" = refused
	}{
		{"plain", 0, account.Admin},
		{"plain", 1e6 * time.Hour, account.Admin},
		{"short", time.Hour - 1, account.Read},
		{"short", time.Hour, ""},
		{"gone", 0, ""},
		{"never made", 0, ""},
	}
	for _, tt := range tests {
		token, err := w.Token(t.Context(), hash(tt.secret), epoch.Add(tt.at))
		if tt.want == "" {
			if !errors.Is(err, queue.ErrNotFound) {
				t.Errorf("%s after %s: %v", tt.secret, tt.at, err)
			}
			continue
		}
		if err != nil || token.Scope != tt.want || token.Org != w.org {
			t.Errorf("%s after %s: %+v, %v", tt.secret, tt.at, token, err)
		}
	}
	listed, err := w.ListTokens(t.Context(), w.org.ID)
	w.must(err)
	plain.LastUsed = epoch.Add(1e6 * time.Hour).Truncate(time.Minute)
	short.LastUsed = epoch.Add(time.Hour - 1).Truncate(time.Minute)
	gone.RevokedAt = epoch
	if diff := cmp.Diff([]account.Token{plain, short, gone}, listed); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	evil := w.organization("evil")
	if err := w.RevokeToken(t.Context(), evil.ID, plain.ID); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("another organisation revokes it: %v", err)
	}
	if _, err := w.CreateToken(t.Context(), w.org, "again", account.Read, hash("plain"), time.Time{}); err == nil {
		t.Error("two tokens have one secret")
	}
	if _, err := w.CreateToken(t.Context(), account.Organization{ID: 4711}, "x", account.Read, hash("x"), time.Time{}); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("a token of nobody: %v", err)
	}
}

func TestAnOrganisationIsMadeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if got := w.organization("ACME"); got != w.org {
		t.Errorf("the same slug makes %+v beside %+v", got, w.org)
	}
	if _, err := w.CreateOrganization(t.Context(), ""); err == nil {
		t.Error("an organisation without a slug is made")
	}
}
