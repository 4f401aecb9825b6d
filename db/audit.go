package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"signalbox/account"
	"signalbox/queue"
)

// auditRow is a line of the audit log.
type auditRow struct {
	ID            int64                       `json:"id"`
	OrgID         int64                       `json:"org_id"`
	QueueID       *int64                      `json:"queue_id"`
	At            stamp                       `json:"at"`
	Login         string                      `json:"login"`
	UserID        int64                       `json:"user_id"`
	Token         string                      `json:"token"`
	Administrator bool                        `json:"administrator"`
	Service       bool                        `json:"service"`
	Deed          string                      `json:"deed"`
	Subject       string                      `json:"subject"`
	Changes       document[[]account.Changed] `json:"changes"`
}

// auditColumns are the columns of auditRow.
const auditColumns = `id, org_id, queue_id, at, login, user_id, token, administrator, service, deed, subject, changes`

func (r auditRow) audit() account.Audit {
	return account.Audit{
		ID: r.ID, At: time.Time(r.At).UTC(), Deed: account.Deed(r.Deed), Subject: r.Subject, Changes: r.Changes.v,
		By: account.Author{Login: r.Login, UserID: r.UserID, Token: r.Token, Administrator: r.Administrator, Service: r.Service},
	}
}

// audit adds a line about an organisation, and about a queue of it unless that
// is 0, in the transaction of what was done.
func audit(ctx context.Context, tx *sqlx.Tx, org, queue int64, a account.Audit) error {
	changes, err := encode(append([]account.Changed{}, a.Changes...))
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO audit (org_id, queue_id, at, login, user_id, token, administrator, service, deed, subject, changes)
		VALUES ($1, NULLIF($2::bigint, 0), $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		org, queue, stamp(a.At), clean(a.By.Login), a.By.UserID, clean(a.By.Token), a.By.Administrator, a.By.Service, string(a.Deed), clean(a.Subject), changes); err != nil {
		return fmt.Errorf("write the audit log: %w", err)
	}
	return nil
}

// subjectOf is what the audit log calls a queue.
func subjectOf(q *queue.Queue) string { return q.Repo.String() + ":" + q.Branch }

// auditChanges writes down what the granted changes among the facts of a
// decision made different. before is the queue as it was.
func auditChanges(ctx context.Context, tx *sqlx.Tx, org int64, before queue.Queue, facts []queue.Received, p *queue.Plan) error {
	for _, g := range p.Granted(before, facts) {
		line := account.Audit{
			At: g.At, Deed: account.QueueChanged, Subject: subjectOf(&before),
			By: account.Author{Login: g.By.Login, UserID: g.By.ID, Token: g.Token, Administrator: g.Via == queue.ViaAdmin},
		}
		for _, c := range g.Changed {
			line.Changes = append(line.Changes, account.Changed(c))
		}
		if err := audit(ctx, tx, org, int64(before.ID), line); err != nil {
			return err
		}
	}
	return nil
}

// Audit lists lines of an organisation's audit log, the newest first: those
// with a smaller number than below, unless that is 0, take at most.
func (db *DB) Audit(ctx context.Context, org int64, below int64, take int) ([]account.Audit, error) {
	return db.audits(ctx, `org_id = $1 AND ($2::bigint = 0 OR id < $2)`, org, below, take)
}

// AuditOf is Audit for one queue.
func (db *DB) AuditOf(ctx context.Context, q queue.ID, below int64, take int) ([]account.Audit, error) {
	return db.audits(ctx, `queue_id = $1 AND ($2::bigint = 0 OR id < $2)`, int64(q), below, take)
}

func (db *DB) audits(ctx context.Context, where string, args ...any) ([]account.Audit, error) {
	var rows []auditRow
	if err := db.sql.SelectContext(ctx, &rows, `SELECT `+auditColumns+` FROM audit WHERE `+where+` ORDER BY id DESC LIMIT $3`, args...); err != nil {
		return nil, fail("read the audit log", err)
	}
	lines := make([]account.Audit, len(rows))
	for i, r := range rows {
		lines[i] = r.audit()
	}
	return lines, nil
}

// Organization finds an organisation by its slug, with the repositories that
// the App works on for it. ErrNotFound: there is none.
func (db *DB) Organization(ctx context.Context, slug string) (account.Organization, []queue.Repo, error) {
	org := account.Organization{Slug: account.Slug(clean(slug))}
	if err := db.sql.GetContext(ctx, &org.ID, `SELECT id FROM organizations WHERE slug = $1`, org.Slug); err != nil {
		return org, nil, fail("find organisation", err)
	}
	var rows []struct {
		ID           int64  `json:"id"`
		Host         string `json:"host"`
		Owner        string `json:"owner"`
		Name         string `json:"name"`
		HostID       int64  `json:"host_id"`
		Installation int64  `json:"installation"`
	}
	if err := db.sql.SelectContext(ctx, &rows, `
		SELECT id, host, owner, name, host_id, installation FROM repositories
		WHERE org_id = $1 AND installation IS NOT NULL ORDER BY id`, org.ID); err != nil {
		return org, nil, fail("list the repositories of an organisation", err)
	}
	repos := make([]queue.Repo, len(rows))
	for i, r := range rows {
		repos[i] = queue.Repo{ID: queue.RepoID(r.ID), Host: r.Host, Owner: r.Owner, Name: r.Name, HostID: r.HostID, Installation: r.Installation}
	}
	return org, repos, nil
}

// OrganizationName is the slug of the organisation that a queue belongs to.
func (db *DB) OrganizationName(ctx context.Context, q queue.ID) (string, error) {
	var slug string
	err := db.sql.GetContext(ctx, &slug, `
		SELECT o.slug FROM queues q JOIN repositories r ON r.id = q.repository_id JOIN organizations o ON o.id = r.org_id WHERE q.id = $1`, int64(q))
	return slug, fail("find the organisation of a queue", err)
}
