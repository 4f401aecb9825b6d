package rest

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"
)

// cursorSecret is the name under which the key of page tokens is kept.
const cursorSecret = "page tokens"

// A page token says where a list goes on. It is signed together with the list
// that it belongs to, so that one of another list, of another organisation or
// made up is refused. It names a place, not an offset: what comes and goes
// while somebody turns pages is never shown twice and never skips another.
//
// Its form is base64url(place, 8 bytes; HMAC-SHA256 over list and place, the
// first 16 bytes).
const cursorSize = 8 + 16

// keys keeps the keys of what we sign after each was first asked for.
type keys struct {
	mu sync.Mutex // held while the store is asked: one question is enough
	of map[string][]byte
}

// cursorKey is the key of page tokens.
func (a *API) cursorKey(ctx context.Context) ([]byte, error) { return a.ownKey(ctx, cursorSecret) }

// ownKey is a key of this installation.
func (a *API) ownKey(ctx context.Context, name string) ([]byte, error) {
	a.keys.mu.Lock()
	defer a.keys.mu.Unlock()
	if a.keys.of[name] == nil {
		key, err := a.store.OwnSecret(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("read the key of %s: %w", name, err)
		}
		if a.keys.of == nil {
			a.keys.of = map[string][]byte{}
		}
		a.keys.of[name] = key
	}
	return a.keys.of[name], nil
}

// signCursor makes the token for a place in a list. list is everything that
// makes it this list and no other; it must encode as JSON.
func signCursor(key []byte, list any, place int64) (string, error) {
	raw := binary.BigEndian.AppendUint64(nil, uint64(place))
	mac, err := cursorMAC(key, list, raw)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append(raw, mac...)), nil
}

// readCursor is the place that a token names. One that is too long, or was not
// made for this list, is an invalid request; refusal tells the caller so.
func readCursor(key []byte, list any, token, refusal string) (place int64, err error) {
	if len(token) > maxCursor {
		return 0, invalidRequest(refusal)
	}
	raw, problem := base64.RawURLEncoding.Strict().DecodeString(token)
	if problem != nil || len(raw) != cursorSize {
		return 0, invalidRequest(refusal)
	}
	mac, err := cursorMAC(key, list, raw[:8])
	if err != nil {
		return 0, err
	}
	if !hmac.Equal(mac, raw[8:]) {
		return 0, invalidRequest(refusal)
	}
	return int64(binary.BigEndian.Uint64(raw)), nil
}

func cursorMAC(key []byte, list any, place []byte) ([]byte, error) {
	text, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("sign a page token: %w", err)
	}
	h := hmac.New(sha256.New, key)
	h.Write(place)
	h.Write(text)
	return h.Sum(nil)[:cursorSize-8], nil
}
