package sqlite

import (
	"database/sql/driver"

	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

// readHashKey reads the key of this file's hashes of names.
func readHashKey(c *conn.Conn) (k format.HashKey, err error) {
	read, err := c.Prepare("SELECT hash_key FROM onceward_journal")
	if err != nil {
		return k, err
	}
	found, err := read.First(func(v []driver.Value) error {
		k, err = format.UnsealHashKey(format.ToBytes(v[0]))
		return err
	})
	if err == nil && !found {
		err = format.ErrDamaged
	}
	return k, err
}
