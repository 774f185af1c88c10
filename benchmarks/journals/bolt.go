package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
)

// boltStore is a copy-on-write B+ tree, its commits grouped by Batch.
type boltStore struct{ db *bbolt.DB }

var boltBucket = []byte("operations")

func openBolt(folder string) (store, error) {
	db, err := bbolt.Open(filepath.Join(folder, "bolt.db"), 0o600, nil)
	if err != nil {
		return nil, err
	}
	db.MaxBatchDelay = 200 * time.Microsecond // its default, 10 ms, is for servers without closed loops
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(boltBucket)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return boltStore{db}, nil
}

func (s boltStore) operation(_ context.Context, key string) error {
	if err := s.put(key+"/intent", intentOf()); err != nil {
		return err
	}
	return s.put(key+"/answer", answerOf())
}

func (s boltStore) put(key string, value []byte) error {
	return s.db.Batch(func(tx *bbolt.Tx) error { return tx.Bucket(boltBucket).Put([]byte(key), value) })
}

func (s boltStore) has(_ context.Context, key string) (there bool, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		there = len(tx.Bucket(boltBucket).Get([]byte(key+"/answer"))) == len(answerHead)+len(answerBody)
		return nil
	})
	return there, err
}

func (s boltStore) close() error { return s.db.Close() }
