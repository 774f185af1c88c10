package rowstoretest

import (
	"bytes"
	"hash/fnv"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/seal"
)

// Ring returns a key ring with these IDs, the same in each process.
func Ring(t testing.TB, ids ...string) *seal.Ring {
	t.Helper()
	var all []seal.Key
	for _, id := range ids {
		all = append(all, seal.Key{ID: id, Secret: bytes.Repeat([]byte(id), seal.SecretSize)[:seal.SecretSize]})
	}
	r, err := seal.NewRing(all...)
	require.NoError(t, err)
	return r
}

// HalfSealed returns a ring for one half of the tests, by name, and nil for the other. With ONCEWARD_SEALED=other, as in a
// second run by CI, the halves change places.
func HalfSealed(t testing.TB) *seal.Ring {
	t.Helper()
	name := fnv.New32a()
	_, _ = name.Write([]byte(t.Name()))
	if (name.Sum32()%2 == 0) == (os.Getenv("ONCEWARD_SEALED") == "other") {
		return Ring(t, "k1")
	}
	return nil
}
