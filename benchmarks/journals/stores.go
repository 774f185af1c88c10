package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"path/filepath"

	"github.com/google/uuid"
)

// store is what keeps operations. An operation is two durable writes: the intent before the request is sent, and the
// answer after it. Its methods are safe for concurrent use.
type store interface {
	// operation makes the intent and then the answer of the operation with this key durable.
	operation(ctx context.Context, key string) error
	// has tells whether the operation is there, answer and all.
	has(ctx context.Context, key string) (bool, error)
	close() error
}

// contender is one way to keep operations.
type contender struct {
	name string
	keys keys
	open func(folder string) (store, error)
}

// keys says where the callers' keys come from.
type keys string

const (
	generated keys = "generated" // a UUIDv4 made for the operation
	carried   keys = "carried"   // a UUIDv4 that the request already had: it has to be looked up
)

// The names are those of the tables and of -only.
const (
	nameOnceward = "onceward"
	nameCarried  = "onceward, carried keys"
	nameSealed   = "onceward sealed"
	nameNaive    = "naive"
	namePebble   = "pebble"
	nameBolt     = "bbolt"
	nameFloor    = "floor"
)

var contenders = []contender{
	{nameOnceward, generated, openOnceward(generated)},
	{nameCarried, carried, openOnceward(carried)},
	{nameSealed, generated, openSealed},
	{nameNaive, generated, openNaive},
	{namePebble, generated, openPebble},
	{nameBolt, generated, openBolt},
	{nameFloor, generated, openFloor},
}

// Every store keeps this of an operation: an intent of about 0.8 KB and an answer of about 0.65 KB.
var (
	intentHead = bytes.Repeat([]byte("h"), 400)
	intentBody = bytes.Repeat([]byte("amount=100&"), 36)
	answerHead = bytes.Repeat([]byte("h"), 210)
	answerBody = bytes.Repeat([]byte(`{"id":"ch_1"}`), 34)
)

const keyLength = 36

// payload returns one operation's bytes that a caller wants to have kept.
func payload() int {
	return keyLength + len(intentHead) + len(intentBody) + len(answerHead) + len(answerBody)
}

// setBodies gives each operation other bodies with that size, which can't be compressed.
func setBodies(size int) {
	intentBody, answerBody = make([]byte, size), make([]byte, size)
	_, _ = rand.Read(intentBody) // it never fails
	_, _ = rand.Read(answerBody)
}

func intentOf() []byte { return append(bytes.Clone(intentHead), intentBody...) }
func answerOf() []byte { return append(bytes.Clone(answerHead), answerBody...) }

// size returns the size that a store's files have on the disk, in bytes.
func size(folder string) (total int64, err error) {
	err = filepath.Walk(folder, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return err
	})
	return total, err
}

func newKey() string { return uuid.NewString() }
