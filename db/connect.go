package db

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"signalbox/account"
	"signalbox/queue"
)

// connectLock serializes what changes the table of repositories: it is rare,
// and its rules look at several rows.
const connectLock = 7446271

func lockRepositories(ctx context.Context, tx *sqlx.Tx) error {
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, connectLock); err != nil {
		return fmt.Errorf("lock repositories: %w", err)
	}
	return nil
}

// Connect applies what the host said about an installation. Applying it again
// changes nothing.
//
// The organisation is the one of the installation's account. A repository that
// the host identifies by its number goes with its installation, also to
// another organisation: the host says that it was transferred.
//
// A name can be noted before the App is installed, by any organisation of this
// service: createQueue must not ask who owns it, because there is nobody to
// ask. A note gives no right to the repository; nothing can be submitted on
// it. So the host's word ends it: when the App is installed on the repository,
// by its owner, a note of another organisation loses the name, and its queues,
// which are empty, are deleted. That is logged as a warning, for whoever
// wonders where they went. Nothing of the note (targets that were uploaded for
// it, say) goes over to the owner.
func (db *DB) Connect(ctx context.Context, c account.Connection) error {
	err := db.transact(ctx, readWrite, func(tx *sqlx.Tx) error { return db.connect(ctx, tx, c) })
	db.recentQueues.forget()
	return fail(fmt.Sprintf("connect installation %d of %s", c.Installation.ID, clean(c.Installation.Account)), err)
}

// connecting is one Connect under way.
type connecting struct {
	db   *DB
	tx   *sqlx.Tx
	host string
	id   int64 // of the installation
	org  int64
}

func (db *DB) connect(ctx context.Context, tx *sqlx.Tx, c account.Connection) error {
	if err := lockRepositories(ctx, tx); err != nil {
		return err
	}
	w := &connecting{db: db, tx: tx, host: strings.ToLower(clean(c.Installation.Host)), id: c.Installation.ID}
	if c.Deleted {
		return w.deleted(ctx)
	}
	if c.RulesChanged { // it says nothing about the installation itself
		return w.tell(ctx, queue.RulesChanged{}, reposOfInstallation, w.host, w.id)
	}
	was, err := w.installation(ctx, c.Installation)
	if err != nil {
		return err
	}
	for _, r := range slices.Concat(c.Renamed, c.Added) {
		if err := w.added(ctx, r, slices.Contains(c.Added, r)); err != nil {
			return err
		}
	}
	if c.Complete {
		if err := w.lost(ctx, c.Added, false); err != nil {
			return err
		}
	}
	if len(c.Removed) > 0 {
		if err := w.lost(ctx, c.Removed, true); err != nil {
			return err
		}
	}
	if c.Installation.Suspended && !was {
		return w.tell(ctx, queue.RepositoryGone{Message: "The App's installation was suspended."}, reposOfInstallation, w.host, w.id)
	}
	if was && !c.Installation.Suspended || c.Permitted {
		return w.tell(ctx, queue.PreflightWanted{}, reposOfInstallation, w.host, w.id)
	}
	return nil
}

const reposOfInstallation = `SELECT id FROM repositories WHERE host = $1 AND installation = $2`

// installation makes or updates the installation's row. It returns whether it
// was suspended before.
func (w *connecting) installation(ctx context.Context, i account.Installation) (suspended bool, err error) {
	var rows []struct {
		OrgID     int64 `json:"org_id"`
		Suspended bool  `json:"suspended"`
	}
	if err := w.tx.SelectContext(ctx, &rows, `
		SELECT org_id, suspended FROM installations WHERE host = $1 AND id = $2`, w.host, w.id); err != nil {
		return false, fmt.Errorf("read installation: %w", err)
	}
	login := clean(i.Account)
	if len(rows) == 1 { // its organisation stays, whatever its account is called by now
		w.org = rows[0].OrgID
		_, err := w.tx.ExecContext(ctx, `
			UPDATE installations SET account = CASE WHEN $3 = '' THEN account ELSE $3 END, suspended = $4 WHERE host = $1 AND id = $2`,
			w.host, w.id, login, i.Suspended)
		if err != nil {
			return false, fmt.Errorf("update installation: %w", err)
		}
		return rows[0].Suspended, nil
	}
	if login == "" {
		return false, fmt.Errorf("installation %d is not known and has no account", w.id)
	}
	org, err := organization(ctx, w.tx, account.Slug(login), w.db.clock())
	if err != nil {
		return false, err
	}
	w.org = org.ID
	if _, err := w.tx.ExecContext(ctx, `
		INSERT INTO installations (host, id, org_id, account, suspended) VALUES ($1, $2, $3, $4, $5)`,
		w.host, w.id, w.org, login, i.Suspended); err != nil {
		return false, fmt.Errorf("insert installation: %w", err)
	}
	return false, nil
}

// knownRepo is what a repository's row says that matters here.
type knownRepo struct {
	ID           int64  `json:"id"`
	OrgID        int64  `json:"org_id"`
	HostID       int64  `json:"host_id"`
	Owner        string `json:"owner"`
	Name         string `json:"name"`
	Installation int64  `json:"installation"`
}

func (w *connecting) find(ctx context.Context, where string, args ...any) (*knownRepo, error) {
	var rows []knownRepo
	if err := w.tx.SelectContext(ctx, &rows, `
		SELECT id, org_id, COALESCE(host_id, 0) AS host_id, owner, name, COALESCE(installation, 0) AS installation FROM repositories WHERE `+where, args...); err != nil {
		return nil, fmt.Errorf("find repository: %w", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	return &rows[0], nil
}

// added takes over the present name of a repository and, if it is in the
// installation, connects it.
func (w *connecting) added(ctx context.Context, r account.Repository, install bool) error {
	owner, name, branch := clean(r.Owner), clean(r.Name), clean(r.DefaultBranch)
	if r.HostID <= 0 || owner == "" || name == "" {
		return fmt.Errorf("a repository of the installation has number %d and name %q", r.HostID, owner+"/"+name)
	}
	known, err := w.find(ctx, `host = $1 AND host_id = $2`, w.host, r.HostID)
	if err != nil || known == nil && !install {
		return err // a rename of what is not connected is no news
	}
	holder, err := w.find(ctx, `host = $1 AND lower(owner) = lower($2) AND lower(name) = lower($3)`, w.host, owner, name)
	if err != nil {
		return err
	}
	switch {
	case holder == nil || known != nil && holder.ID == known.ID:
	case holder.HostID == 0 && known == nil && holder.OrgID == w.org:
		known = holder // noted by createQueue, and now it is here
	case holder.HostID == 0 && holder.OrgID != w.org:
		if err := w.evict(ctx, holder); err != nil {
			return err
		}
	case holder.HostID == 0: // noted under the new name of one that is connected
		if err := w.merge(ctx, holder, known); err != nil {
			return err
		}
	default: // the host gave the name to another repository
		if err := w.vacate(ctx, holder); err != nil {
			return err
		}
	}
	if known == nil {
		return w.insert(ctx, r.HostID, owner, name, branch)
	}
	return w.update(ctx, known, r.HostID, owner, name, branch, install)
}

func (w *connecting) insert(ctx context.Context, hostID int64, owner, name, branch string) error {
	if _, err := w.tx.ExecContext(ctx, `
		INSERT INTO repositories (org_id, host, host_id, owner, name, default_branch, installation, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, w.org, w.host, hostID, owner, name, branch, w.id, w.db.clock()); err != nil {
		return fmt.Errorf("insert repository: %w", err)
	}
	return nil
}

func (w *connecting) update(ctx context.Context, known *knownRepo, hostID int64, owner, name, branch string, install bool) error {
	if !strings.EqualFold(known.Owner, owner) || !strings.EqualFold(known.Name, name) {
		if err := w.remember(ctx, known); err != nil {
			return err
		}
	}
	if install && known.OrgID != w.org {
		w.db.log.Warn("a repository goes to another organisation, as its host says", "host", w.host,
			"repository", owner+"/"+name, "installation", w.id, "org", w.org, "before", known.OrgID)
	}
	if _, err := w.tx.ExecContext(ctx, `
		UPDATE repositories SET owner = $2, name = $3, host_id = $4,
			default_branch = CASE WHEN $5 = '' THEN default_branch ELSE $5 END,
			installation = CASE WHEN $6 THEN $7 ELSE installation END,
			org_id = CASE WHEN $6 THEN $8 ELSE org_id END
		WHERE id = $1`, known.ID, owner, name, hostID, branch, install, w.id, w.org); err != nil {
		return fmt.Errorf("update repository: %w", err)
	}
	if !install || known.Installation == w.id {
		return nil
	}
	return w.tell(ctx, queue.PreflightWanted{}, `SELECT id FROM repositories WHERE id = $1`, known.ID)
}

// remember keeps the name that a repository has had.
func (w *connecting) remember(ctx context.Context, r *knownRepo) error {
	if _, err := w.tx.ExecContext(ctx, `
		INSERT INTO repository_names (repository_id, host, owner, name, until) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (host, lower(owner), lower(name), repository_id) DO UPDATE SET until = excluded.until`,
		r.ID, w.host, r.Owner, r.Name, w.db.clock()); err != nil {
		return fmt.Errorf("keep old name: %w", err)
	}
	return nil
}

// vacate takes a name from a repository that the host says no longer has it.
// Until we hear its new name it gets one that no repository can have.
func (w *connecting) vacate(ctx context.Context, r *knownRepo) error {
	if err := w.remember(ctx, r); err != nil {
		return err
	}
	if _, err := w.tx.ExecContext(ctx, `UPDATE repositories SET name = name || '~' || id WHERE id = $1`, r.ID); err != nil {
		return fmt.Errorf("vacate name: %w", err)
	}
	return nil
}

// evict ends a note of another organisation: see Connect.
func (w *connecting) evict(ctx context.Context, noted *knownRepo) error {
	return w.db.evict(ctx, w.tx, noted.ID, w.org)
}

// evict takes the name of a repository that was only noted from the
// organisation that noted it, with its queues, because org owns it.
func (db *DB) evict(ctx context.Context, tx *sqlx.Tx, noted, org int64) error {
	var branches []string
	if err := tx.SelectContext(ctx, &branches, `DELETE FROM queues WHERE repository_id = $1 RETURNING branch`, noted); err != nil {
		return fmt.Errorf("delete queues of a note: %w", err)
	}
	// The name was never its own: it is not remembered.
	var was struct {
		Host  string `json:"host"`
		Owner string `json:"owner"`
		OrgID int64  `json:"org_id"`
		Name  string `json:"name"`
	}
	if err := tx.GetContext(ctx, &was, `
		UPDATE repositories SET name = name || '~' || id WHERE id = $1 RETURNING host, owner, org_id, name`, noted); err != nil {
		return fmt.Errorf("take the name from a note: %w", err)
	}
	db.log.Warn("a repository that another organisation had noted goes to the one that owns it; the other's queues are deleted",
		"host", was.Host, "repository", was.Owner+"/"+was.Name, "org", org, "noted_by", was.OrgID, "queues", branches)
	return nil
}

// merge moves the queues of a repository that was noted to the same one under
// its number, and drops the note. A queue of a branch that has one already
// keeps the note, out of the way.
func (w *connecting) merge(ctx context.Context, noted, known *knownRepo) error {
	if _, err := w.tx.ExecContext(ctx, `
		UPDATE queues q SET repository_id = $2 WHERE q.repository_id = $1
			AND NOT EXISTS (SELECT 1 FROM queues o WHERE o.repository_id = $2 AND o.branch = q.branch)`, noted.ID, known.ID); err != nil {
		return fmt.Errorf("move queues: %w", err)
	}
	return w.vacate(ctx, noted)
}

// lost disconnects repositories of this installation: those listed, or with
// listed = false all others.
func (w *connecting) lost(ctx context.Context, repos []account.Repository, listed bool) error {
	ids := make([]int64, len(repos))
	for i, r := range repos {
		ids[i] = r.HostID
	}
	return w.tell(ctx, queue.RepositoryGone{Message: "The App is no longer installed on the repository."}, `
		UPDATE repositories SET installation = NULL
		WHERE host = $1 AND installation = $2 AND (host_id = ANY($3)) = $4 RETURNING id`, w.host, w.id, pq.Array(ids), listed)
}

func (w *connecting) deleted(ctx context.Context) error {
	if err := w.tell(ctx, queue.RepositoryGone{Message: "The App was uninstalled."}, `
		UPDATE repositories SET installation = NULL WHERE host = $1 AND installation = $2 RETURNING id`, w.host, w.id); err != nil {
		return err
	}
	if _, err := w.tx.ExecContext(ctx, `DELETE FROM installations WHERE host = $1 AND id = $2`, w.host, w.id); err != nil {
		return fmt.Errorf("delete installation: %w", err)
	}
	return nil
}

// tell tells something to the queues of the repositories that a statement
// returns.
func (w *connecting) tell(ctx context.Context, fact queue.Fact, statement string, args ...any) error {
	var repos []int64
	if err := w.tx.SelectContext(ctx, &repos, statement, args...); err != nil {
		return fmt.Errorf("find the repositories to tell: %w", err)
	}
	rows, err := rowsOfFacts([]queue.Fact{fact})
	if err != nil {
		return err
	}
	for _, id := range repos {
		if err := w.db.insertFacts(ctx, w.tx, queue.RepoID(id), 0, rows); err != nil {
			return err
		}
	}
	return nil
}
