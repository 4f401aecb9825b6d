package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
)

// mostPrepared bounds the statements that one connection keeps prepared. Ours
// and River's are fewer; a program that has more is still right, only slower.
const mostPrepared = 256

// preparing connects so that each connection prepares a statement once and
// remembers it. lib/pq prepares each statement anew: two round trips instead
// of one, and most of what a short read costs is planning.
type preparing struct {
	driver.Connector
	opened func() // hears of each new connection, before anybody uses it
}

// Connect opens a connection.
func (p preparing) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := p.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	p.opened()
	return &preparingConn{Conn: inner, prepared: map[string]driver.Stmt{}}, nil
}

// preparingConn is one connection. database/sql uses it from one goroutine at
// a time.
type preparingConn struct {
	driver.Conn
	prepared map[string]driver.Stmt
}

var (
	_ driver.QueryerContext     = (*preparingConn)(nil)
	_ driver.ExecerContext      = (*preparingConn)(nil)
	_ driver.ConnPrepareContext = (*preparingConn)(nil)
	_ driver.ConnBeginTx        = (*preparingConn)(nil)
	_ driver.Pinger             = (*preparingConn)(nil)
	_ driver.SessionResetter    = (*preparingConn)(nil)
	_ driver.Validator          = (*preparingConn)(nil)
	_ driver.NamedValueChecker  = (*preparingConn)(nil)
)

// statement is a statement that is prepared here, or nil when there is no room
// for another.
func (c *preparingConn) statement(ctx context.Context, query string) (driver.Stmt, error) {
	if s := c.prepared[query]; s != nil {
		return s, nil
	}
	if len(c.prepared) >= mostPrepared {
		return nil, nil
	}
	s, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	c.prepared[query] = s
	return s, nil
}

// QueryContext runs a query. One without parameters may be several statements,
// which cannot be prepared.
func (c *preparingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if len(args) > 0 || !strings.Contains(query, ";") {
		s, err := c.statement(ctx, query)
		if err != nil {
			return nil, err
		}
		if s, ok := s.(driver.StmtQueryContext); ok {
			return s.QueryContext(ctx, args)
		}
	}
	if inner, ok := c.Conn.(driver.QueryerContext); ok {
		return inner.QueryContext(ctx, query, args)
	}
	return nil, driver.ErrSkip
}

// ExecContext runs a statement.
func (c *preparingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if len(args) > 0 {
		s, err := c.statement(ctx, query)
		if err != nil {
			return nil, err
		}
		if s, ok := s.(driver.StmtExecContext); ok {
			return s.ExecContext(ctx, args)
		}
	}
	if inner, ok := c.Conn.(driver.ExecerContext); ok {
		return inner.ExecContext(ctx, query, args)
	}
	return nil, driver.ErrSkip
}

// PrepareContext prepares a statement that its user closes.
func (c *preparingConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if inner, ok := c.Conn.(driver.ConnPrepareContext); ok {
		return inner.PrepareContext(ctx, query)
	}
	return c.Conn.Prepare(query)
}

// BeginTx begins a transaction.
func (c *preparingConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if inner, ok := c.Conn.(driver.ConnBeginTx); ok {
		return inner.BeginTx(ctx, opts)
	}
	return nil, errors.New("the driver has no transactions with options") // Unreachable: lib/pq has
}

// Ping asks whether the database is there.
func (c *preparingConn) Ping(ctx context.Context) error {
	if inner, ok := c.Conn.(driver.Pinger); ok {
		return inner.Ping(ctx)
	}
	return nil
}

// ResetSession makes the connection ready for its next user.
func (c *preparingConn) ResetSession(ctx context.Context) error {
	if inner, ok := c.Conn.(driver.SessionResetter); ok {
		return inner.ResetSession(ctx)
	}
	return nil
}

// IsValid reports whether the connection may be used again.
func (c *preparingConn) IsValid() bool {
	inner, ok := c.Conn.(driver.Validator)
	return !ok || inner.IsValid()
}

// CheckNamedValue converts a parameter.
func (c *preparingConn) CheckNamedValue(v *driver.NamedValue) error {
	if inner, ok := c.Conn.(driver.NamedValueChecker); ok {
		return inner.CheckNamedValue(v)
	}
	return driver.ErrSkip
}
