package format

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"

	"github.com/onceward/onceward/journal"
)

// HashKey is what names are hashed with: strangers make names, and could make as many
// as they like that collide under a hash which they can compute. It is as old as the
// journal, and goes wherever that goes: what was hashed with it is never hashed again.
type HashKey [16]byte

// NewHashKey returns a random one.
func NewHashKey() (k HashKey) {
	_, _ = rand.Read(k[:]) // it never fails
	return k
}

// Sealed is the key as it is stored.
func (k HashKey) Sealed() []byte { return seal(k[:]) }

// UnsealHashKey reads what Sealed made.
func UnsealHashKey(sealed []byte) (k HashKey, err error) {
	b, err := unseal(sealed)
	if err != nil || len(b) != len(k) {
		return k, ErrDamaged
	}
	return HashKey(b), nil
}

// Of is the hash of a name. What collides is told apart by the operations.
func (k *HashKey) Of(ref journal.Ref) uint32 {
	b := append(make([]byte, 0, 256), k[:]...)
	for _, part := range [...]string{ref.ID, ref.Scope, ref.Parent} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	hash := sha256.Sum256(b)
	return binary.LittleEndian.Uint32(hash[:])
}
