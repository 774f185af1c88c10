// Package seal makes the payloads of a journal unreadable without the journal's keys.
package seal

import (
	"bytes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// SecretSize is the number of bytes in a Key's Secret.
const SecretSize = 32

// maxID is the number of bytes in a Key's ID at most.
const maxID = 16

// Key is a root key. No format of package fmt or log/slog, and no JSON, shows the Secret.
type Key struct {
	ID     string // names the key for ever: 1 to 16 of a-z, 0-9 and '-'
	Secret []byte // SecretSize random bytes; never a password
}

// Format writes the ID for every verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "key "+k.ID) }

// MarshalText returns the ID, for JSON and log/slog.
func (k Key) MarshalText() ([]byte, error) { return []byte("key " + k.ID), nil }

func (k Key) check() error {
	switch {
	case !isID(k.ID):
		return fmt.Errorf("the ID needs 1 to %d of a-z, 0-9 and '-'", maxID)
	case len(k.Secret) != SecretSize:
		return fmt.Errorf("the secret has %d bytes: draw %d, for example by `openssl rand -base64 %[2]d`", len(k.Secret), SecretSize)
	case len(slices.Compact(slices.Clone(k.Secret))) == 1:
		return fmt.Errorf("the secret repeats one byte: draw %d random bytes", SecretSize)
	}
	return nil
}

func isID(id string) bool {
	isOther := func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' }
	return id != "" && len(id) <= maxID && !strings.ContainsFunc(id, isOther)
}

// Ring has the keys of a process. A Ring is safe for concurrent use. No format of package fmt or log/slog, and no JSON,
// shows a secret. A nil Ring has no key.
type Ring struct {
	keys       func() *keys // a function, since package fmt shows what a pointer leads to
	readsClear bool
}

type keys struct {
	all    []Key
	sealer sealer

	mu     sync.RWMutex
	opened map[derived]cipher.AEAD // by salt, of boxes that were opened
}

// NewRing returns a ring. The first key seals, and all keys open. To rotate, add a key as the second in every process, then
// make it the first in every process. Remove the old key once no box of it is left. NewRing copies the secrets.
func NewRing(all ...Key) (*Ring, error) {
	if len(all) == 0 {
		return nil, errors.New("seal: a ring needs a key")
	}
	own := &keys{opened: make(map[derived]cipher.AEAD)}
	for i, k := range all {
		err := k.check()
		switch {
		case err != nil:
		case own.secret(k.ID) != nil:
			err = errors.New("an earlier key has the same ID: give each key its own")
		case slices.ContainsFunc(own.all, func(other Key) bool { return bytes.Equal(other.Secret, k.Secret) }):
			err = errors.New("an earlier key has the same secret: draw a secret for each key")
		}
		if err != nil {
			return nil, fmt.Errorf("seal: key %d: %w", i+1, err)
		}
		own.all = append(own.all, Key{k.ID, slices.Clone(k.Secret)})
	}
	return &Ring{keys: func() *keys { return own }}, nil
}

// ParseRing reads a ring's keys, one a line as id:secret, the sealing key first. The secret is in standard base64. Empty
// lines, and lines that begin with #, count as comments. An error shows no part of text, and names a line by its number.
func ParseRing(text []byte) (*Ring, error) {
	var all []Key
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, secret, _ := strings.Cut(line, ":")
		decoded, err := base64.StdEncoding.Strict().DecodeString(secret)
		if err != nil {
			return nil, fmt.Errorf("seal: line %d of the keys needs the form id:secret, with the secret in standard base64", number)
		}
		k := Key{id, decoded}
		if err := k.check(); err != nil {
			return nil, fmt.Errorf("seal: line %d of the keys: %w", number, err)
		}
		all = append(all, k)
	}
	return NewRing(all...)
}

// ReadClear returns a ring that also reads payloads without a seal, as in a journal that was clear before. Such a ring
// makes sealing no protection against a person who can write to the table: that person can have any request sent. So use
// ReadClear only until no clear payload is left.
func (r *Ring) ReadClear() *Ring { return &Ring{r.keys, true} }

// ReadsClear reports whether ReadClear made the ring.
func (r *Ring) ReadsClear() bool { return r.readsClear }

// IDs returns the keys' IDs, the sealing key's first.
func (r *Ring) IDs() []string {
	if r == nil {
		return nil
	}
	ids := make([]string, len(r.keys().all))
	for i, k := range r.keys().all {
		ids[i] = k.ID
	}
	return ids
}

// String returns the keys' IDs.
func (r *Ring) String() string { return "ring of " + strings.Join(r.IDs(), ", ") }

// Format writes String for every verb.
func (r *Ring) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }

// MarshalText returns String, for JSON and log/slog.
func (r *Ring) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

func (k *keys) secret(id string) []byte {
	for i := range k.all {
		if k.all[i].ID == id {
			return k.all[i].Secret
		}
	}
	return nil
}
