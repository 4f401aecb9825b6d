package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"signalbox/account"
	"signalbox/queue"
)

// CreateOrganization finds an organisation by its slug (see account.Slug), or
// makes it.
func (db *DB) CreateOrganization(ctx context.Context, slug string) (org account.Organization, err error) {
	err = db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		org, err = organization(ctx, tx, account.Slug(clean(slug)), db.clock())
		return err
	})
	return org, fail("create organisation", err)
}

func organization(ctx context.Context, tx *sqlx.Tx, slug string, now time.Time) (account.Organization, error) {
	org := account.Organization{Slug: slug}
	// The update changes nothing; it makes the row come back.
	if err := tx.GetContext(ctx, &org.ID, `
		INSERT INTO organizations (slug, created_at) VALUES ($1, $2)
		ON CONFLICT (slug) DO UPDATE SET slug = excluded.slug RETURNING id`, slug, now); err != nil {
		return org, fmt.Errorf("make organisation %q: %w", slug, err)
	}
	return org, nil
}

// tokenRow is a token as its table has it, with its organisation.
type tokenRow struct {
	ID        int64  `json:"id"`
	OrgID     int64  `json:"org_id"`
	Slug      string `json:"slug"`
	Name      string `json:"name"`
	Scope     string `json:"scope"`
	CreatedAt stamp  `json:"created_at"`
	LastUsed  stamp  `json:"last_used_at"`
	ExpiresAt stamp  `json:"expires_at"`
	RevokedAt stamp  `json:"revoked_at"`
}

// selectToken reads a tokenRow; the condition follows.
const selectToken = `
	SELECT t.id, t.org_id, o.slug, t.name, t.scope, t.created_at, t.last_used_at, t.expires_at, t.revoked_at
	FROM api_tokens t JOIN organizations o ON o.id = t.org_id`

func (r tokenRow) token() account.Token {
	return account.Token{
		ID: r.ID, Org: account.Organization{ID: r.OrgID, Slug: r.Slug}, Name: r.Name, Scope: account.Scope(r.Scope),
		CreatedAt: time.Time(r.CreatedAt), LastUsed: time.Time(r.LastUsed), ExpiresAt: time.Time(r.ExpiresAt), RevokedAt: time.Time(r.RevokedAt),
	}
}

// CreateToken keeps a new token of an organisation under the hash of its
// secret (see account.NewSecret and account.Hash). expires zero: never.
func (db *DB) CreateToken(ctx context.Context, org account.Organization, name string, scope account.Scope, hash [32]byte, expires time.Time) (account.Token, error) {
	t := account.Token{Org: org, Name: clean(name), Scope: scope, CreatedAt: db.clock(), ExpiresAt: stamp(expires).time()}
	err := db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &t.ID, `
			INSERT INTO api_tokens (org_id, name, hash, scope, created_at, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6) RETURNING id`,
			org.ID, t.Name, hash[:], string(scope), t.CreatedAt, stamp(expires)); err != nil {
			return err
		}
		return audit(ctx, tx, org.ID, 0, account.Audit{At: t.CreatedAt, By: account.AuthorOf(ctx), Deed: account.TokenCreated, Subject: t.Name,
			Changes: []account.Changed{{Name: "scope", To: string(scope)}}})
	})
	if err != nil {
		return account.Token{}, fail("create token", missingIs(err, queue.ErrNotFound))
	}
	return t, nil
}

// ListTokens lists the tokens of an organisation, oldest first, those that can
// no longer be used too.
func (db *DB) ListTokens(ctx context.Context, org int64) ([]account.Token, error) {
	var rows []tokenRow
	if err := db.sql.SelectContext(ctx, &rows, selectToken+` WHERE t.org_id = $1 ORDER BY t.id`, org); err != nil {
		return nil, fail("list tokens", err)
	}
	tokens := make([]account.Token, len(rows))
	for i, r := range rows {
		tokens[i] = r.token()
	}
	return tokens, nil
}

// RevokeToken makes a token invalid from now on. ErrNotFound: the organisation
// has no such token. Revoking it again keeps the first time.
func (db *DB) RevokeToken(ctx context.Context, org, id int64) error {
	err := db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		var name string
		now := db.clock()
		if err := tx.GetContext(ctx, &name, `
			UPDATE api_tokens SET revoked_at = COALESCE(revoked_at, $3) WHERE org_id = $1 AND id = $2 RETURNING name`,
			org, id, now); err != nil {
			return err
		}
		return audit(ctx, tx, org, 0, account.Audit{At: now, By: account.AuthorOf(ctx), Deed: account.TokenRevoked, Subject: name})
	})
	db.validTokens.forget()
	return fail("revoke token", err)
}

// Token finds a valid token by the hash of its secret and notes that it was
// used, to the minute. ErrNotFound: unknown, expired or revoked; a token that
// another program has revoked may be valid here for another second.
func (db *DB) Token(ctx context.Context, hash [32]byte, now time.Time) (account.Token, error) {
	row, known := db.validTokens.find(hash)
	if !known || !row.usedIn(now) {
		asked := time.Now()
		var err error
		row, err = db.tokens.ask(ctx, hash, func(ctx context.Context) (tokenRow, error) { return db.useToken(ctx, hash, now) })
		if err != nil {
			return account.Token{}, fail("find token", err)
		}
		if row.token().Valid(now) {
			db.validTokens.keep(hash, row, asked)
		}
	}
	t := row.token()
	if !t.Valid(now) {
		return account.Token{}, fmt.Errorf("find token: %w", queue.ErrNotFound)
	}
	return t, nil
}

// usedIn reports whether it is noted that the token was used in the minute of now.
func (r tokenRow) usedIn(now time.Time) bool {
	return !time.Time(r.LastUsed).Before(now.UTC().Truncate(time.Minute))
}

// useToken reads a token. When it is valid now, it notes that it was used.
func (db *DB) useToken(ctx context.Context, hash [32]byte, now time.Time) (tokenRow, error) {
	var row tokenRow
	if err := db.sql.GetContext(ctx, &row, selectToken+` WHERE t.hash = $1`, hash[:]); err != nil {
		return row, err
	}
	minute := now.UTC().Truncate(time.Minute)
	if !row.token().Valid(now) || row.usedIn(now) {
		return row, nil
	}
	row.LastUsed = stamp(minute)
	if _, err := db.sql.ExecContext(ctx, `
		UPDATE api_tokens SET last_used_at = $2 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)`, row.ID, minute); err != nil {
		return row, fmt.Errorf("note its use: %w", err)
	}
	return row, nil
}
