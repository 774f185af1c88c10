package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/seal"
)

// maxKeys limits how much from the keys' file is read, in bytes.
const maxKeys = 64 << 10

// readRing reads the file with the journal's keys once, if the command line or the environment names one. The file is read
// before the command becomes another user.
func (c *command) readRing() error {
	path := cmp.Or(c.keys, os.Getenv("ONCEWARD_KEYS"))
	if path == "" || c.ring != nil {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return notFound("--keys: there is no file %s", shown.Text(path))
		}
		return fmt.Errorf("--keys: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return fmt.Errorf("--keys: %w", err)
	case info.IsDir():
		return refused("--keys: %s is a folder: name the file with the keys", shown.Text(path))
	case othersMayRead(info):
		return refused("--keys: %s has mode %04o, so that other users get at the keys: chmod 600 %[1]s", shown.Text(path), info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeys+1))
	switch {
	case err != nil:
		return fmt.Errorf("--keys: %w", err)
	case len(text) > maxKeys:
		return refused("--keys: %s is larger than %s: is it the file with the keys?", shown.Text(path), shown.Bytes(maxKeys))
	}
	if c.ring, err = seal.ParseRing(text); err != nil {
		return refused("--keys: %s: %s", shown.Text(path), strings.TrimPrefix(err.Error(), "seal: "))
	}
	return nil
}

// ringFor returns the ring for a journal. A verb that only reads also takes payloads in clear, as in a journal that is not
// wholly sealed yet.
func (c *command) ringFor(how access) *seal.Ring {
	if c.ring == nil || how.write {
		return c.ring
	}
	return c.ring.ReadClear()
}

// needsKeys adds what to do to an error about keys.
func needsKeys(err error) error {
	switch {
	case errors.Is(err, journal.ErrSealed):
		return fmt.Errorf("%w; name the file with that key by --keys", err)
	case errors.Is(err, seal.ErrClear):
		return fmt.Errorf("%w; but if it was recorded before the journal was sealed, leave --keys and ONCEWARD_KEYS out", err)
	}
	return err
}

// unlessSealed returns nil for an error about a missing key. The other fields of the record were read.
func unlessSealed(err error) error {
	if errors.Is(err, journal.ErrSealed) {
		return nil
	}
	return err
}

// sealedBy stands for a payload whose key is missing.
func sealedBy(key string) string {
	if key == "" {
		return ""
	}
	return "sealed by " + shown.Text(key)
}

// sealed adds the fact that payloads are missing.
func (t *table) sealed(key string) {
	if key != "" {
		t.fact("payload", sealedBy(key)+": name the file with that key by --keys")
	}
}
