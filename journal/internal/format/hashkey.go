package format

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// HashKey keys the hashes of names. Strangers choose names, and could choose many with one hash if they could compute
// it. The key is as old as the journal and moves with the journal: nothing is ever hashed again under another key.
type HashKey [16]byte

// NewHashKey returns a random one.
func NewHashKey() (k HashKey) {
	_, _ = rand.Read(k[:]) // it never fails
	return k
}

// Sealed is the key as it is stored.
func (k HashKey) Sealed() []byte { return withSum(k[:]) }

// UnsealHashKey reads what Sealed made.
func UnsealHashKey(sealed []byte) (k HashKey, err error) {
	b, err := withoutSum(sealed)
	if err != nil || len(b) != len(k) {
		return k, ErrDamaged
	}
	return HashKey(b), nil
}

// Of is a name's hash. Two names with one hash are told apart by reading their operations.
func (k *HashKey) Of(ref journal.Ref) uint32 {
	b := append(make([]byte, 0, 256), k[:]...)
	for _, part := range [...]string{ref.ID, ref.Scope, ref.Parent} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	hash := sha256.Sum256(b)
	return binary.LittleEndian.Uint32(hash[:])
}

// OfMark is the hash of a value that recognises an operation. by names the value's kind.
func (k *HashKey) OfMark(by byte, value string) int64 {
	b := append(make([]byte, 0, 128), k[:]...)
	b = append(b, "mark"...)
	b = append(append(b, by), value...)
	hash := sha256.Sum256(b)
	return int64(binary.LittleEndian.Uint64(hash[:]))
}

// OfHeard is the sealed hash of an event. An event with the hash of another one would be taken for heard, so the hash
// is long enough to make that unlikely.
func (k *HashKey) OfHeard(heard machine.Heard) []byte {
	b := append(make([]byte, 0, 128), k[:]...)
	b = append(b, "heard"...)
	for _, part := range [...]string{heard.Provider, heard.Account, heard.ID} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	hash := sha256.Sum256(b)
	return withSum(hash[:16])
}

// IsHeard tells whether OfHeard made it.
func IsHeard(sealed []byte) bool {
	hash, err := withoutSum(sealed)
	return err == nil && len(hash) == 16
}
