package db

import (
	"context"
	"strings"

	"signalbox/account"
)

// Connected lists the installations of a host that are known, with the
// repositories that each serves, as far as the host has said so.
func (db *DB) Connected(ctx context.Context, host string) ([]account.Connection, error) {
	var rows []struct {
		ID        int64  `json:"id"`
		Account   string `json:"account"`
		Suspended bool   `json:"suspended"`
		HostID    int64  `json:"host_id"`
		Owner     string `json:"owner"`
		Name      string `json:"name"`
	}
	host = strings.ToLower(clean(host))
	if err := db.sql.SelectContext(ctx, &rows, `
		SELECT i.id, i.account, i.suspended, COALESCE(r.host_id, 0) AS host_id, COALESCE(r.owner, '') AS owner, COALESCE(r.name, '') AS name
		FROM installations i LEFT JOIN repositories r ON r.host = i.host AND r.installation = i.id
		WHERE i.host = $1 ORDER BY i.id, r.id`, host); err != nil {
		return nil, fail("list installations", err)
	}
	var all []account.Connection
	for _, r := range rows {
		if len(all) == 0 || all[len(all)-1].Installation.ID != r.ID {
			all = append(all, account.Connection{Installation: account.Installation{ID: r.ID, Host: host, Account: r.Account, Suspended: r.Suspended}})
		}
		if r.HostID != 0 {
			last := &all[len(all)-1]
			last.Added = append(last.Added, account.Repository{HostID: r.HostID, Host: host, Owner: r.Owner, Name: r.Name})
		}
	}
	return all, nil
}
