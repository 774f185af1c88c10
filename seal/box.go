package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
)

// A box is a format byte, the key's ID after its length, a salt, a nonce, and what AES-256-GCM makes of the content. The
// box's own key comes from the root key and the salt by HKDF-SHA-256. A process draws a salt for many boxes, so that random
// nonces under one derived key stay far below the limit of AES-GCM.
const (
	boxFormat = 1
	saltSize  = 16
	nonceSize = 12
	tagSize   = 16
	info      = "onceward/seal/1"

	// boxesPerSalt is far below 2^32, the limit of NIST SP 800-38D for random nonces under one key.
	boxesPerSalt = 1 << 28
	// mostOpened limits the derived keys that a ring remembers for Open.
	mostOpened = 1024
)

// Overhead is by how many bytes a box is longer than its content at most.
const Overhead = 2 + maxID + saltSize + nonceSize + tagSize

// ErrDamaged means that a box is damaged, or was made for other additional data.
var ErrDamaged = errors.New("seal: a box is damaged, or another record's")

// ErrClear means that a journal has a payload in clear, and the ring is not of Ring.ReadClear.
var ErrClear = errors.New("seal: a payload is in clear, and the ring reads sealed payloads only (see Ring.ReadClear)")

// MissingKeyError means that a ring lacks a box's key.
type MissingKeyError struct{ ID string }

func (e *MissingKeyError) Error() string { return fmt.Sprintf("seal: the ring lacks the key %q", e.ID) }

// salt makes many boxes differ from others' under one root key.
type salt [saltSize]byte

type derived struct {
	id   string
	salt salt
}

// sealer has the derived key for new boxes.
type sealer struct {
	mu   sync.Mutex
	left int // boxes until the next salt
	salt salt
	aead cipher.AEAD
}

// next returns the salt and the derived key for a box.
func (k *keys) next() (salt, cipher.AEAD) {
	s := &k.sealer
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left == 0 {
		_, _ = rand.Read(s.salt[:]) // it never fails
		s.aead, s.left = derive(k.all[0].Secret, s.salt), boxesPerSalt
	}
	s.left--
	return s.salt, s.aead
}

func derive(secret []byte, s salt) cipher.AEAD {
	// The sizes are right, so that there is no error.
	key, _ := hkdf.Key(sha256.New, secret, s[:], info, SecretSize)
	block, _ := aes.NewCipher(key)
	aead, _ := cipher.NewGCMWithRandomNonce(block)
	return aead
}

// Seal appends a box of plain to dst, and returns the result. The box opens only with the same additional data. The ring
// must not be nil.
func (r *Ring) Seal(dst, plain, additional []byte) []byte {
	id := r.keys().all[0].ID
	s, aead := r.keys().next()
	dst = append(append(dst, boxFormat, byte(len(id))), id...)
	return aead.Seal(append(dst, s[:]...), nil, plain, additional)
}

// Open returns a box's content. Open returns a *MissingKeyError if the ring lacks the box's key, and ErrDamaged for
// anything else.
func (r *Ring) Open(box, additional []byte) ([]byte, error) {
	id, rest, is := split(box)
	if !is {
		return nil, ErrDamaged
	}
	var secret []byte
	if r != nil {
		secret = r.keys().secret(id)
	}
	if secret == nil {
		return nil, &MissingKeyError{id}
	}
	of := derived{id, salt(rest)}
	aead := r.keys().known(of)
	known := aead != nil
	if !known {
		aead = derive(secret, of.salt)
	}
	plain, err := aead.Open(nil, nil, rest[saltSize:], additional)
	if err != nil {
		return nil, ErrDamaged
	}
	if !known {
		r.keys().remember(of, aead)
	}
	return plain, nil
}

// KeyOf returns the ID of a box's key, and whether the bytes have a box's form.
func KeyOf(box []byte) (id string, is bool) {
	id, _, is = split(box)
	return id, is
}

func split(box []byte) (id string, rest []byte, is bool) {
	if len(box) < 2 || box[0] != boxFormat {
		return "", nil, false
	}
	n := int(box[1])
	if len(box) < 2+n+saltSize+nonceSize+tagSize {
		return "", nil, false
	}
	id = string(box[2 : 2+n])
	return id, box[2+n:], isID(id)
}

func (k *keys) known(of derived) cipher.AEAD {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.opened[of]
}

func (k *keys) remember(of derived, aead cipher.AEAD) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.opened) == mostOpened {
		clear(k.opened)
	}
	k.opened[of] = aead
}
