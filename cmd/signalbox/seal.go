package main

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"signalbox/db"
)

// Secrets that must be kept in the database are encrypted there: those of the
// App that a server made for itself, and where subscribers are, with what their
// deliveries are signed with. Who has the database alone, or a copy of it, has
// none of them.

// defaultKeyFile is, in the data directory, the key that they are encrypted
// with, unless a setting names another file.
const defaultKeyFile = "secret.key"

// sealingKey is the key, in use.
type sealingKey struct {
	file string
	aead cipher.AEAD
	mark [32]byte // tells the key from others, and tells nothing of it
}

// sealer reads the key, or makes it if it is not there and create is true.
func sealer(file string, create bool) (*sealingKey, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && create {
		text, err = newKey(file)
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of the secrets in the database: %w. It was made with the first of them; every copy of the server needs the same", err)
	}
	wrong := fmt.Errorf("read the key of the secrets in the database: %s does not hold one: it should be 64 hexadecimal digits, such as openssl rand -hex 32 makes", file)
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != 32 {
		return nil, wrong
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, wrong
	}
	aead, err := cipher.NewGCM(block)
	return &sealingKey{file: file, aead: aead, mark: sha256.Sum256(append([]byte("the key of Signalbox's secrets "), key...))}, err
}

// newKey makes the key's file, unless somebody else does at this moment.
func newKey(file string) ([]byte, error) {
	var key [32]byte
	rand.Read(key[:])
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	// Written beside it and linked, so that nobody reads half of it.
	part, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*") // for us alone
	if err != nil {
		return nil, err
	}
	defer os.Remove(part.Name())
	_, err = part.WriteString(hex.EncodeToString(key[:]) + "\n")
	if err = errors.Join(err, part.Sync(), part.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(part.Name(), file); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(file)
}

// seal encrypts a text. It opens only about the same thing.
func (k *sealingKey) seal(text []byte, about string) []byte {
	nonce := make([]byte, k.aead.NonceSize())
	rand.Read(nonce)
	return k.aead.Seal(nonce, nonce, text, []byte(about))
}

// open is the opposite of seal.
func (k *sealingKey) open(sealed []byte, about string) ([]byte, error) {
	if n := k.aead.NonceSize(); len(sealed) >= n {
		if text, err := k.aead.Open(nil, sealed[:n], sealed[n:], []byte(about)); err == nil {
			return text, nil
		}
	}
	return nil, fmt.Errorf("a secret in the database was encrypted with another key than the one in %s: every copy of the server needs the one that it was made with", k.file)
}

// vault is a notify.Box: the key, read when it is first needed. A copy of the
// server whose key is not that of the others encrypts nothing, because they
// could not read it.
type vault struct {
	file string
	db   *db.DB

	mu  sync.Mutex // held while the key is read
	key *sealingKey
}

func (v *vault) find(ctx context.Context, create bool) (*sealingKey, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.key != nil {
		return v.key, nil
	}
	key, err := sealer(v.file, create)
	if err != nil {
		return nil, err
	}
	first, err := v.db.FirstSecret(ctx, "mark of the sealing key", key.mark[:])
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare(first, key.mark[:]) != 1 {
		return nil, fmt.Errorf("the secrets in the database are encrypted with another key than the one in %s: every copy of the server needs the same file (SIGNALBOX_SECRET_KEY_FILE)", v.file)
	}
	v.key = key
	return key, nil
}

// Seal encrypts a text.
func (v *vault) Seal(ctx context.Context, text []byte, about string) ([]byte, error) {
	key, err := v.find(ctx, true)
	if err != nil {
		return nil, err
	}
	return key.seal(text, about), nil
}

// Open is the opposite of Seal.
func (v *vault) Open(ctx context.Context, sealed []byte, about string) ([]byte, error) {
	key, err := v.find(ctx, false)
	if err != nil {
		return nil, err
	}
	return key.open(sealed, about)
}
