package githubsim

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v4"
)

// tokenLife is how long an installation token works.
const tokenLife = time.Hour

// token is an access token: an installation's (ghs_) or a person's (ghp_).
type token struct {
	secret      string
	account     *account      // who acts with it
	inst        *installation // nil for a person's
	permissions map[string]string
	only        map[int64]bool // repositories it is limited to; nil for all
	expires     time.Time      // zero for never
}

type callerKind int

const (
	anonymous callerKind = iota
	asApp                // an App JWT
	asInstallation
	asUser
)

// caller is who makes a call.
type caller struct {
	kind    callerKind
	account *account // nil when anonymous
	token   *token
	bucket  string // whose rate limit it uses
}

// via is the App that acts, nil for a person.
func (s *Server) via(who caller) *app {
	if who.kind == asInstallation {
		return s.app
	}
	return nil
}

// authenticate finds out who calls, from a JWT, a token or basic
// authentication with a token as the password.
func (s *Server) authenticate(r *http.Request) (caller, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return caller{bucket: "anonymous"}, nil
	}
	scheme, secret, _ := strings.Cut(header, " ")
	switch strings.ToLower(scheme) {
	case "bearer", "token":
		secret = strings.TrimSpace(secret)
	case "basic":
		_, password, ok := r.BasicAuth()
		if !ok {
			return caller{}, badCredentials()
		}
		secret = password
	default:
		return caller{}, badCredentials()
	}
	if strings.Count(secret, ".") == 2 {
		return s.authenticateApp(secret)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tokens[secret]
	if t == nil {
		return caller{}, badCredentials()
	}
	if !t.expires.IsZero() && !s.cfg.Now().Before(t.expires) {
		delete(s.tokens, secret)
		return caller{}, badCredentials()
	}
	kind := asUser
	if t.inst != nil {
		kind = asInstallation
	}
	return caller{kind: kind, account: t.account, token: t, bucket: secret}, nil
}

// authenticateApp checks a JWT of our App as GitHub does: RS256, issued by the
// App's id, and good for ten minutes at most.
func (s *Server) authenticateApp(text string) (caller, error) {
	refuse := func(message string) (caller, error) {
		return caller{}, &apiError{status: 401, message: message}
	}
	s.mu.Lock()
	key, id, bot := s.key, s.cfg.AppID, s.app.bot
	s.mu.Unlock()
	claims := jwt.RegisteredClaims{}
	parser := jwt.NewParser(jwt.WithValidMethods([]string{"RS256"}), jwt.WithoutClaimsValidation())
	if _, err := parser.ParseWithClaims(text, &claims, func(*jwt.Token) (any, error) { return key, nil }); err != nil {
		return refuse("A JSON web token could not be decoded")
	}
	now := s.cfg.Now()
	switch {
	case claims.Issuer != strconv.FormatInt(id, 10):
		return refuse("'Issuer' claim ('iss') must be an Integer")
	case claims.ExpiresAt == nil:
		return refuse("'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires")
	case !claims.ExpiresAt.After(now):
		return refuse("'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires")
	case claims.ExpiresAt.After(now.Add(10*time.Minute + 30*time.Second)):
		return refuse("'Expiration time' claim ('exp') is too far in the future")
	case claims.IssuedAt != nil && claims.IssuedAt.After(now.Add(time.Minute)):
		return refuse("'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued")
	}
	return caller{kind: asApp, account: bot, bucket: "app"}, nil
}

func newSecret(prefix string) string {
	raw := make([]byte, 18)
	rand.Read(raw)
	return prefix + hex.EncodeToString(raw)
}

// UserToken makes a token with which git and the API can be used as a person,
// with the rights that person has. It never expires.
func (s *Server) UserToken(login string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &token{secret: newSecret("ghp_"), account: s.user(login)}
	s.tokens[t.secret] = t
	return t.secret
}

// installationToken makes a token for an installation. mu is held.
func (s *Server) installationToken(inst *installation, permissions map[string]string, only map[int64]bool) *token {
	t := &token{
		secret: newSecret("ghs_"), account: s.app.bot, inst: inst,
		permissions: permissions, only: only, expires: s.cfg.Now().Add(tokenLife).UTC().Truncate(time.Second),
	}
	s.tokens[t.secret] = t
	return t
}

// granted reports whether a level such as "contents:write" is in a set of permissions.
func granted(permissions map[string]string, need string) bool {
	name, level, _ := strings.Cut(need, ":")
	have := permissions[name]
	return have == "admin" || have == level || have == "write" && level == "read"
}

// sees reports whether a caller may know that a repository exists. mu is held.
func (s *Server) sees(who caller, r *repo) bool {
	switch who.kind {
	case asInstallation:
		return who.token.inst.has(r) && (who.token.only == nil || who.token.only[r.id]) || !r.private
	case asUser:
		return r.permission(who.account) != "none"
	default:
		return !r.private
	}
}

// may reports whether a caller has a permission such as "contents:write" on a
// repository that it sees. mu is held.
func (s *Server) may(who caller, r *repo, need string) bool {
	_, level, _ := strings.Cut(need, ":")
	switch who.kind {
	case asInstallation:
		installed := who.token.inst.has(r) && (who.token.only == nil || who.token.only[r.id])
		return granted(who.token.permissions, need) && (installed || level == "read" && !r.private)
	case asUser:
		return level == "read" || r.canWrite(who.account)
	default:
		return level == "read" && !r.private
	}
}
