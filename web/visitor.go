package web

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"signalbox/account"
	"signalbox/queue"
)

// Host is what pages ask of the Git host.
type Host interface {
	// Right is what a person may do on a repository now. It goes by the
	// host's number of the person, never by the login alone.
	Right(ctx context.Context, repo queue.Repo, who queue.Actor) (account.Right, error)
	// PullRequest reads a pull request that is to be submitted. gone says
	// that the host has none of that number.
	PullRequest(ctx context.Context, repo queue.Repo, number int64) (seen queue.PullRequestSeen, gone bool, err error)
}

// visitor is who makes a request.
type visitor struct {
	actor queue.Actor // who signed in; zero for everybody else
	// local is somebody at this machine where nobody signs in: the
	// administrator of the installation.
	local bool
	// csrf is what a form of this visitor carries; "" who may do nothing.
	csrf string
}

// known reports whether somebody signed in.
func (v visitor) known() bool { return v.actor.ID != 0 }

// via is how a wish of the visitor came to us.
func (v visitor) via() queue.Via {
	if v.local {
		return queue.ViaAdmin
	}
	return queue.ViaUser
}

type visitorKey struct{}

// visitorOf is who makes a request, as welcome found out.
func visitorOf(ctx context.Context) visitor {
	v, _ := ctx.Value(visitorKey{}).(visitor)
	return v
}

// welcome finds out who makes a request. Whoever has to sign in first, and
// has not, gets ok false.
func (h *Handler) welcome(r *http.Request) (v visitor, ok bool, err error) {
	if h.signIn == nil {
		if h.local && fromHere(r) {
			return visitor{local: true, csrf: csrfToken(h.secret)}, true, nil
		}
		return visitor{}, true, nil
	}
	c, err := r.Cookie(h.cookieName(sessionCookie))
	if err != nil || c.Value == "" {
		return visitor{}, false, nil
	}
	who, err := h.store.Session(r.Context(), account.Hash(c.Value), h.clock())
	switch {
	case errors.Is(err, queue.ErrNotFound):
		return visitor{}, false, nil
	case err != nil:
		return visitor{}, false, fmt.Errorf("find session: %w", err)
	}
	return visitor{actor: who, csrf: csrfToken([]byte(c.Value))}, true, nil
}

// csrfToken is what the forms of a session carry. Only pages of ours can be
// read by those who want to know it.
func csrfToken(secret []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("form"))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// fromHere reports whether a request comes from this machine and was meant for
// it. A proxy on this machine says whom it asks for, or that it is one; and a
// name that somebody else's DNS leads here is not ours.
func fromHere(r *http.Request) bool {
	for _, header := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if r.Header.Get(header) != "" {
			return false
		}
	}
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	return err == nil && loopback(from) && loopback(hostname(r.Host))
}

func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// rightsKept is how long the host's word on what somebody may see is kept.
// Before a change it is asked again.
const rightsKept = 3 * time.Minute

// rightsHold is for how long it still holds when the host does not answer.
const rightsHold = time.Hour

// rightsAtMost bounds what is kept.
const rightsAtMost = 20000

// rights remembers what the host said for a while.
type rights struct {
	mu   sync.Mutex
	kept map[rightKey]rightKept
}

type rightKey struct {
	repo queue.RepoID
	who  int64
}

type rightKept struct {
	right account.Right
	at    time.Time // when the host said so
}

// find is what the host said, if that was less than an age ago.
func (k *rights) find(key rightKey, now time.Time, age time.Duration) (account.Right, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, ok := k.kept[key]
	return found.right, ok && now.Sub(found.at) < age
}

func (k *rights) keep(key rightKey, right account.Right, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.kept) >= rightsAtMost {
		clear(k.kept) // it fills again by itself
	}
	k.kept[key] = rightKept{right, at}
}

// right is what the visitor may do on a repository. fresh says that the host
// has to be asked at this moment.
func (h *Handler) right(ctx context.Context, repo queue.Repo, fresh bool) (account.Right, error) {
	v := visitorOf(ctx)
	switch {
	case v.local:
		return account.AdminRight, nil
	case h.signIn == nil:
		return account.ReadRight, nil
	case !v.known():
		return account.NoRight, nil
	}
	key, now := rightKey{repo.ID, v.actor.ID}, h.clock()
	if right, ok := h.rights.find(key, now, rightsKept); ok && !fresh {
		return right, nil
	}
	if repo.Installation == 0 {
		return account.NoRight, nil // nobody could tell
	}
	right, err := h.host.Right(ctx, repo, v.actor)
	if err != nil {
		if old, ok := h.rights.find(key, now, rightsHold); ok && !fresh {
			return old, nil // pages can be read while the host is away
		}
		return account.NoRight, fmt.Errorf("ask what %s may do on %s: %w", v.actor, repo, err)
	}
	h.rights.keep(key, right, now)
	return right, nil
}

// askedAtOnce is how many questions about rights the host gets at one time.
const askedAtOnce = 8
