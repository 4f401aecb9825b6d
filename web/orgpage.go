package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"
	"golang.org/x/sync/errgroup"

	"signalbox/account"
	"signalbox/queue"
)

// The pages of an organisation: its API tokens and its audit log. A token can
// do everything that an administrator of every repository of the organisation
// can, so it takes one to see them.

// tokensView is the page of API tokens.
type tokensView struct {
	Org    string
	Tokens []tokenRow
	Fresh  *freshToken
	CSRF   string
	Told   string
	Now    moment
}

// tokenRow is a token without its secret.
type tokenRow struct {
	ID            int64
	Name, Scope   string
	State         badge
	Created, Used moment
	Expires       moment
	Revocable     bool
}

// freshToken is a token that was just made: its secret is shown once.
type freshToken struct{ Name, Secret string }

func (tokensView) template() string { return "tokens" }

// Heading is the page's title.
func (v tokensView) Heading() string { return "API tokens of " + v.Org }

// auditView is a page of the audit log.
type auditView struct {
	Org   string
	Rows  []auditRow
	Older string // address of the next page; "" = there is none
	Now   moment
}

func (auditView) template() string { return "audit" }

// Heading is the page's title.
func (v auditView) Heading() string { return "Audit log of " + v.Org }

// auditShown is how many lines a page of the audit log has.
const auditShown = 100

// administered finds the organisation that a request names, for who is an
// administrator of every repository of it, with those repositories.
func (h *Handler) administered(r *http.Request, fresh bool) (account.Organization, []queue.Repo, error) {
	absentOrg := absent("There is no such organisation, or you are not an administrator of all its repositories.")
	slug := httprouter.ParamsFromContext(r.Context()).ByName("org")
	if !storable(slug) {
		return account.Organization{}, nil, absentOrg
	}
	org, repos, err := h.store.Organization(r.Context(), slug)
	switch {
	case errors.Is(err, queue.ErrNotFound):
		return org, nil, absentOrg
	case err != nil:
		return org, nil, fmt.Errorf("find organisation: %w", err)
	}
	all, err := h.administersAll(r.Context(), repos, fresh)
	if err == nil && !all {
		err = absentOrg
	}
	return org, repos, err
}

func (h *Handler) administersAll(ctx context.Context, repos []queue.Repo, fresh bool) (bool, error) {
	if visitorOf(ctx).local {
		return true, nil
	}
	if h.signIn == nil || len(repos) == 0 {
		return false, nil
	}
	errLess := errors.New("less than an administrator")
	group, asking := errgroup.WithContext(ctx)
	group.SetLimit(askedAtOnce)
	for _, repo := range repos {
		group.Go(func() error {
			right, err := h.right(asking, repo, fresh)
			if err == nil && right < account.AdminRight {
				err = errLess
			}
			return err
		})
	}
	err := group.Wait()
	if errors.Is(err, errLess) {
		return false, nil
	}
	return err == nil, err
}

func (h *Handler) tokens(r *http.Request) (frame, error) {
	org, _, err := h.administered(r, false)
	if err != nil {
		return frame{}, err
	}
	v, err := h.tokensOf(r, org)
	return frame{View: v, Tabs: orgTabs(org.Slug, tokensURL(org.Slug))}, err
}

func (h *Handler) tokensOf(r *http.Request, org account.Organization) (tokensView, error) {
	tokens, err := h.store.ListTokens(r.Context(), org.ID)
	if err != nil {
		return tokensView{}, fmt.Errorf("list tokens: %w", err)
	}
	v := viewTokens(org, tokens, h.clock())
	v.CSRF, v.Told = visitorOf(r.Context()).csrf, told(r)
	return v, nil
}

func viewTokens(org account.Organization, tokens []account.Token, now time.Time) tokensView {
	v := tokensView{Org: org.Slug, Now: at(now, now)}
	for _, t := range tokens {
		row := tokenRow{
			ID: t.ID, Name: t.Name, Scope: string(t.Scope), Created: at(t.CreatedAt, now), Used: used(t, now), Expires: at(t.ExpiresAt, now),
			State: badge{"valid", "good"}, Revocable: t.Valid(now),
		}
		switch {
		case !t.RevokedAt.IsZero():
			row.State = badge{"revoked", "off"}
		case !t.Valid(now):
			row.State = badge{"expired", "off"}
		}
		v.Tokens = append(v.Tokens, row)
	}
	return v
}

// used is when a token was last used. That is kept to the minute, which can
// have begun before the token was made.
func used(t account.Token, now time.Time) moment {
	if !t.LastUsed.IsZero() && t.LastUsed.Before(t.CreatedAt) {
		return at(t.CreatedAt, now)
	}
	return at(t.LastUsed, now)
}

// createToken makes a token and shows its secret, on this answer alone.
func (h *Handler) createToken(w http.ResponseWriter, r *http.Request) {
	v, err := h.newToken(r)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	h.render(w, r, http.StatusOK, frame{View: v, Tabs: orgTabs(v.Org, tokensURL(v.Org))})
}

func (h *Handler) newToken(r *http.Request) (tokensView, error) {
	org, _, err := h.administered(r, true)
	if err != nil {
		return tokensView{}, err
	}
	back := tokensURL(org.Slug)
	name := strings.TrimSpace(r.PostForm.Get("name"))
	if !storable(name) || len(name) > 100 {
		return tokensView{}, refusal{http.StatusBadRequest, "Give the token a name of 1 to 100 characters, such as what uses it.", back}
	}
	scope, err := account.ParseScope(r.PostForm.Get("scope"))
	if err != nil {
		return tokensView{}, refusal{http.StatusBadRequest, "Choose what the token may do.", back}
	}
	var expires time.Time
	if days := r.PostForm.Get("days"); days != "" {
		n, err := strconv.Atoi(days)
		if err != nil || n < 1 || n > 3650 {
			return tokensView{}, refusal{http.StatusBadRequest, "Let the token live from 1 to 3650 days.", back}
		}
		expires = h.clock().Add(time.Duration(n) * 24 * time.Hour)
	}
	secret, err := account.NewSecret()
	if err != nil {
		return tokensView{}, err
	}
	if _, err := h.store.CreateToken(authored(r.Context()), org, name, scope, account.Hash(secret), expires); err != nil {
		return tokensView{}, fmt.Errorf("create token: %w", err)
	}
	v, err := h.tokensOf(r, org)
	v.Fresh = &freshToken{name, secret}
	return v, err
}

// authored is a context that says in whose name something is done.
func authored(ctx context.Context) context.Context {
	v := visitorOf(ctx)
	return account.As(ctx, account.Author{Login: v.actor.Login, UserID: v.actor.ID, Administrator: v.local})
}

// revokeToken makes a token worthless.
func (h *Handler) revokeToken(r *http.Request) (string, error) {
	org, _, err := h.administered(r, true)
	if err != nil {
		return "", err
	}
	id, err := strconv.ParseInt(r.PostForm.Get("id"), 10, 64)
	if err != nil {
		return "", queue.ErrNotFound
	}
	err = h.store.RevokeToken(authored(r.Context()), org.ID, id)
	if err != nil && !errors.Is(err, queue.ErrNotFound) {
		return "", fmt.Errorf("revoke token: %w", err)
	}
	return tokensURL(org.Slug) + "?done=revoked", err
}

func (h *Handler) audit(r *http.Request) (frame, error) {
	org, _, err := h.administered(r, false)
	if err != nil {
		return frame{}, err
	}
	below, _ := strconv.ParseInt(r.URL.Query().Get("below"), 10, 64) // 0 = from the newest
	lines, err := h.store.Audit(r.Context(), org.ID, below, auditShown+1)
	if err != nil {
		return frame{}, fmt.Errorf("read the audit log: %w", err)
	}
	v := auditView{Org: org.Slug, Now: at(h.clock(), h.clock())}
	if len(lines) > auditShown {
		lines = lines[:auditShown]
		v.Older = fmt.Sprintf("%s?below=%d", auditURL(org.Slug), lines[auditShown-1].ID)
	}
	v.Rows = auditRows(lines, h.clock())
	return frame{View: v, Tabs: orgTabs(org.Slug, auditURL(org.Slug))}, nil
}
