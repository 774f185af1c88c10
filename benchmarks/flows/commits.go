package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// commitCounter reads how many transactions, in any process, have written to a database in WAL mode. It reads the
// counter iChange of the WAL index (https://sqlite.org/walformat.html, "The WAL-Index File Format"). With
// synchronous=FULL each of them was one fsync at least.
type commitCounter struct {
	index *os.File // nil: there is no database
}

// countCommits is for an open database. Close the counter after the database: closing any database file drops the process's
// locks on the file (https://sqlite.org/howtocorrupt.html, section 2.2).
func countCommits(folder string) (commitCounter, error) {
	index, err := os.Open(filepath.Join(folder, databaseName+"-shm"))
	if errors.Is(err, os.ErrNotExist) {
		return commitCounter{}, nil
	}
	return commitCounter{index}, err
}

// count is what the counter stands at. It begins anywhere, and wraps.
func (c commitCounter) count() (uint32, error) {
	if c.index == nil {
		return 0, nil
	}
	const header, change = 48, 8
	both := make([]byte, 2*header) // a writer changes one copy after the other
	for range 1000 {
		if _, err := c.index.ReadAt(both, 0); err != nil {
			return 0, fmt.Errorf("read the WAL index: %w", err)
		}
		if bytes.Equal(both[:header], both[header:]) {
			return binary.NativeEndian.Uint32(both[change:]), nil
		}
	}
	return 0, errors.New("read the WAL index: it does not come to rest")
}

func (c commitCounter) close() error {
	if c.index == nil {
		return nil
	}
	return c.index.Close()
}
