package main

import (
	"bytes"
	"context"
	"slices"

	"github.com/google/uuid"
)

// store is what keeps operations. An operation is two durable commits: the intent before the request is sent, and the
// answer after it. Its methods are safe for concurrent use.
type store interface {
	// operation makes the intent and then the answer of a new operation durable.
	operation(ctx context.Context) error
	// has counts the operations that are there, answer and all.
	has(ctx context.Context) (int, error)
	close() error
}

// settler is a store whose operations return before their answers are durable.
type settler interface {
	settle(ctx context.Context) error // waits until all are
}

// contender is one way to keep operations.
type contender struct {
	name    string
	prepare func(ctx context.Context, url string) error                           // makes its tables, once
	open    func(ctx context.Context, url string, connections int) (store, error) // the connections: of those who take one for each commit
}

// The names are those of the tables and of -only.
const (
	nameNaive    = "naive"
	nameOnceward = "onceward"
	nameRiver    = "river"
	nameDBOS     = "dbos"
)

var contenders = []contender{
	{nameOnceward, prepareOnceward, openOnceward},
	{nameNaive, prepareNaive, openNaive},
	{nameRiver, prepareRiver, openRiver},
	{nameDBOS, prepareDBOS, openDBOS},
}

func contenderOf(name string) (contender, bool) {
	for _, c := range slices.Concat(contenders, outboxes) {
		if c.name == name {
			return c, true
		}
	}
	return contender{}, false
}

// Every contender keeps this of an operation: an intent of about 0.9 KB and an answer of about 0.75 KB.
var (
	intentHead = bytes.Repeat([]byte("h"), 440)
	intentBody = bytes.Repeat([]byte("amount=100&"), 40)
	answerHead = bytes.Repeat([]byte("h"), 300)
	answerBody = bytes.Repeat([]byte(`{"id":"ch_1"}`), 34)
)

// poolSize is the connection count, over all processes, for the contenders that take one for each commit.
const poolSize = 64

func newKey() string { return uuid.NewString() }
