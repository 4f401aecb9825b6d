package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"text/tabwriter"
	"time"

	"signalbox/account"
	"signalbox/db"
	"signalbox/queue"
)

// tokenCreateCommand makes a token. It makes the organisation too, so that an
// operator can create queues before the App is installed anywhere.
type tokenCreateCommand struct {
	storage `group:"storage"`
	logging `group:"logging"`
	Org     string `required:"" help:"Organisation that the token belongs to: the owner of the repositories, in lower case."`
	Scope   string `default:"admin" completion:"read,submit,admin" help:"read, submit (submit, cancel, restart) or admin (queues too)."`
	Name    string `default:"command line" help:"What the token is for. It is shown in lists."`
	Expires string `help:"When it ends: a duration such as 90d or 12h, or a date such as 2027-01-31. Default: never."`
	JSON    bool   `name:"json" help:"Print JSON."`
}

// slugs are the names that an account of the host can have.
var slugs = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9_-]{0,98}[a-z0-9])?$`)

// Run makes the token and prints its secret, which is stored nowhere.
func (t tokenCreateCommand) Run(ctx context.Context, c console) error {
	slug := account.Slug(t.Org)
	scope, scopeErr := account.ParseScope(t.Scope)
	expires, expiresErr := parseExpiry(t.Expires, time.Now())
	var slugErr error
	if !slugs.MatchString(slug) {
		slugErr = fmt.Errorf("org is %q: give the name of an account, such as acme", t.Org)
	}
	if err := errors.Join(slugErr, scopeErr, expiresErr); err != nil {
		return err
	}
	return t.with(ctx, t.logging, c, func(d *db.DB) error {
		token, secret, err := createToken(ctx, d, slug, t.Name, scope, expires)
		if err != nil {
			return err
		}
		if t.JSON {
			return printJSON(c, map[string]any{"id": token.ID, "token": secret, "org": slug, "scope": scope, "name": token.Name, "expiresAt": moment(expires)})
		}
		fmt.Fprintf(c.err, "Token %d of organisation %s, scope %s. It is shown this once; send it in the header x-api-token:\n", token.ID, slug, scope)
		_, err = fmt.Fprintln(c.out, secret)
		return err
	})
}

// createToken makes a token of an organisation, which is made if need be.
func createToken(ctx context.Context, d *db.DB, slug, name string, scope account.Scope, expires time.Time) (account.Token, string, error) {
	org, err := d.CreateOrganization(ctx, slug)
	if err != nil {
		return account.Token{}, "", err
	}
	secret, err := account.NewSecret()
	if err != nil {
		return account.Token{}, "", err
	}
	token, err := d.CreateToken(ctx, org, name, scope, account.Hash(secret), expires)
	return token, secret, err
}

// days are durations that time.ParseDuration does not know.
var days = regexp.MustCompile(`^([1-9][0-9]{0,4})d$`)

// parseExpiry reads when a token ends; "" is never.
func parseExpiry(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	var at time.Time
	if m := days.FindStringSubmatch(text); m != nil {
		var n int
		_, _ = fmt.Sscan(m[1], &n) // the pattern lets only a number through
		at = now.AddDate(0, 0, n)
	} else if d, err := time.ParseDuration(text); err == nil {
		at = now.Add(d)
	} else if at, err = time.Parse(time.DateOnly, text); err != nil {
		return at, fmt.Errorf("expires is %q: give a duration such as 90d or 12h, or a date such as 2027-01-31", text)
	}
	if !at.After(now) {
		return at, fmt.Errorf("expires is %q, which has passed", text)
	}
	return at.UTC(), nil
}

// tokenListCommand lists tokens, without their secrets.
type tokenListCommand struct {
	storage `group:"storage"`
	logging `group:"logging"`
	Org     string `required:"" help:"Organisation."`
	JSON    bool   `name:"json" help:"Print JSON."`
}

// listedToken is a token as the list shows it.
type listedToken struct {
	ID        int64         `json:"id"`
	Name      string        `json:"name"`
	Scope     account.Scope `json:"scope"`
	CreatedAt *time.Time    `json:"createdAt"`
	LastUsed  *time.Time    `json:"lastUsedAt"`
	ExpiresAt *time.Time    `json:"expiresAt"`
	RevokedAt *time.Time    `json:"revokedAt"`
}

// Run prints the list.
func (t tokenListCommand) Run(ctx context.Context, c console) error {
	return t.with(ctx, t.logging, c, func(d *db.DB) error {
		org, err := d.CreateOrganization(ctx, t.Org)
		if err != nil {
			return err
		}
		tokens, err := d.ListTokens(ctx, org.ID)
		if err != nil {
			return err
		}
		rows := make([]listedToken, len(tokens))
		for i, k := range tokens {
			rows[i] = listedToken{k.ID, k.Name, k.Scope, moment(k.CreatedAt), moment(k.LastUsed), moment(k.ExpiresAt), moment(k.RevokedAt)}
		}
		if t.JSON {
			return printJSON(c, rows)
		}
		table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "ID\tNAME\tSCOPE\tCREATED\tLAST USED\tEXPIRES\tREVOKED")
		for _, r := range rows {
			fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Name, r.Scope, day(r.CreatedAt), day(r.LastUsed), day(r.ExpiresAt), day(r.RevokedAt))
		}
		return table.Flush()
	})
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func day(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format("2006-01-02 15:04")
}

// tokenRevokeCommand ends a token.
type tokenRevokeCommand struct {
	storage `group:"storage"`
	logging `group:"logging"`
	Org     string `required:"" help:"Organisation."`
	ID      int64  `arg:"" help:"Number of the token, from token list."`
	JSON    bool   `name:"json" help:"Print JSON."`
}

// Run revokes.
func (t tokenRevokeCommand) Run(ctx context.Context, c console) error {
	return t.with(ctx, t.logging, c, func(d *db.DB) error {
		org, err := d.CreateOrganization(ctx, t.Org)
		if err == nil {
			err = d.RevokeToken(ctx, org.ID, t.ID)
		}
		if errors.Is(err, queue.ErrNotFound) {
			return fmt.Errorf("organisation %s has no token %d: signalbox token list --org %s shows them", t.Org, t.ID, t.Org)
		}
		switch {
		case err != nil:
			return err
		case t.JSON:
			return printJSON(c, map[string]any{"id": t.ID, "org": org.Slug, "revoked": true})
		}
		_, err = fmt.Fprintf(c.err, "Token %d of organisation %s is revoked.\n", t.ID, org.Slug)
		return err
	})
}

// migrateCommand brings the schema up to date and ends.
type migrateCommand struct {
	storage `group:"storage"`
	logging `group:"logging"`
	JSON    bool `name:"json" help:"Print JSON."`
}

// Run migrates.
func (m migrateCommand) Run(ctx context.Context, c console) error {
	return m.with(ctx, m.logging, c, func(*db.DB) error {
		if m.JSON {
			return printJSON(c, map[string]any{"upToDate": true})
		}
		_, err := fmt.Fprintln(c.err, "The database's schema is up to date.")
		return err
	})
}

// with opens the database with its schema up to date, calls f and closes it.
func (s storage) with(ctx context.Context, l logging, c console, f func(*db.DB) error) error {
	if l.LogLevel == "info" {
		l.LogLevel = "warn" // a command that prints one thing prints that alone
	}
	log, logErr := l.logger(c.err)
	cfg, err := s.checkStorage()
	if err := errors.Join(logErr, err); err != nil {
		return err
	}
	d, err := openDatabase(ctx, cfg, nil, log)
	if err != nil {
		return err
	}
	err = d.Migrate(ctx)
	if err == nil {
		err = f(d.DB)
	}
	return errors.Join(err, d.Close())
}
