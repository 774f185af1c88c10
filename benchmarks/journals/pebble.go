package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
)

// pebbleStore is an LSM tree with a write-ahead log that groups commits by itself.
type pebbleStore struct{ db *pebble.DB }

func openPebble(folder string) (store, error) {
	db, err := pebble.Open(filepath.Join(folder, "pebble"), &pebble.Options{Logger: silent{}})
	if err != nil {
		return nil, err
	}
	return pebbleStore{db}, nil
}

func (s pebbleStore) operation(_ context.Context, key string) error {
	if err := s.db.Set([]byte(key+"/intent"), intentOf(), pebble.Sync); err != nil {
		return err
	}
	return s.db.Set([]byte(key+"/answer"), answerOf(), pebble.Sync)
}

func (s pebbleStore) has(_ context.Context, key string) (bool, error) {
	value, closer, err := s.db.Get([]byte(key + "/answer"))
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer closer.Close()
	return len(value) == len(answerHead)+len(answerBody), nil
}

func (s pebbleStore) close() error { return s.db.Close() }

// silent keeps pebble's progress off the terminal. Its failures come back as errors.
type silent struct{}

func (silent) Infof(string, ...any)           {}
func (silent) Errorf(string, ...any)          {}
func (silent) Fatalf(format string, _ ...any) { panic(format) }
