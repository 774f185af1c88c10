package sqlite

import (
	"crypto/rand"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/binary"

	"github.com/onceward/onceward/journal"
)

// hashKey is what names are hashed with: strangers make names, and could make as many
// as they like that collide under a hash which they can compute. It is as old as the
// journal, and goes wherever that goes: what was hashed with it is never hashed again.
type hashKey [16]byte

func newHashKey() (k hashKey) {
	_, _ = rand.Read(k[:]) // it never fails
	return k
}

// sealed is the key as it is stored.
func (k hashKey) sealed() []byte { return seal(k[:]) }

func unsealHashKey(sealed []byte) (k hashKey, err error) {
	b, err := unseal(sealed)
	if err != nil || len(b) != len(k) {
		return k, errFormat
	}
	return hashKey(b), nil
}

func readHashKey(c *conn) (k hashKey, err error) {
	read, err := c.prepare("SELECT hash_key FROM onceward_journal")
	if err != nil {
		return k, err
	}
	found, err := read.first(func(v []driver.Value) error {
		k, err = unsealHashKey(toBytes(v[0]))
		return err
	})
	if err == nil && !found {
		err = errFormat
	}
	return k, err
}

// of is the hash of a name. What collides is told apart by the operations.
func (k *hashKey) of(ref journal.Ref) uint32 {
	b := append(make([]byte, 0, 256), k[:]...)
	for _, part := range [...]string{ref.ID, ref.Scope, ref.Parent} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	hash := sha256.Sum256(b)
	return binary.LittleEndian.Uint32(hash[:])
}
