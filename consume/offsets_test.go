package consume_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/journal"
)

// partition is a log of ten messages. To commit an offset acknowledges all earlier messages.
type partition struct{ committed int }

const inPartition = 10

func (p *partition) poll() (messages []consume.Message) {
	for offset := p.committed; offset < min(p.committed+4, inPartition); offset++ {
		messages = append(messages, consume.Message{ID: fmt.Sprint("m-", offset), Source: "topic"})
	}
	return messages
}

// On a log, "acknowledge if and only if the error is nil" loses the message that failed: nine rows of ten. InOrder loses none.
func TestMessagesOfAPartition(t *testing.T) {
	t.Parallel()
	type handler = func(context.Context, journal.Tx, int) error
	inOrder := func(c *consume.Consumer, log *partition, messages []consume.Message, do handler) {
		done, _ := c.InOrder(t.Context(), messages, do)
		log.committed += done
	}
	eachIfNil := func(c *consume.Consumer, log *partition, messages []consume.Message, do handler) {
		first := log.committed
		for i, m := range messages {
			if _, err := c.Do(t.Context(), m, func(ctx context.Context, tx journal.Tx) error { return do(ctx, tx, i) }); err == nil {
				log.committed = first + i + 1
			}
		}
	}
	for name, tc := range map[string]struct {
		consume  func(*consume.Consumer, *partition, []consume.Message, handler)
		together int
		rows     int
	}{
		"acknowledge if and only if the error is nil": {eachIfNil, 0, 9},
		"in order":           {inOrder, 0, 10},
		"in order, together": {inOrder, 3, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			c, err := consume.New(t.Context(), consume.Options{Journal: b.journal, Name: "log", Keep: time.Hour, Together: tc.together})
			require.NoError(t, err)
			log, failed := &partition{}, false
			for polls := 0; log.committed < inPartition; polls++ {
				require.Less(t, polls, inPartition)
				messages := log.poll()
				tc.consume(c, log, messages, func(ctx context.Context, tx journal.Tx, i int) error {
					if messages[i].ID == "m-5" && !failed {
						failed = true
						return errors.New("down")
					}
					return book(messages[i].ID)(ctx, tx)
				})
			}
			rows := b.ledger()
			assert.Len(t, rows, tc.rows)
			assert.Len(t, slices.Compact(rows), tc.rows)
			assert.Equal(t, tc.rows == inPartition, slices.Contains(rows, "m-5"))
		})
	}
}

// InOrder stops at the first error, and its count is exact, however many messages share a transaction.
func TestInOrder(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	of := func(ids ...string) (messages []consume.Message) {
		for _, id := range ids {
			messages = append(messages, message(id))
		}
		return messages
	}
	version := func(id string, seq int64) consume.Message {
		return consume.Message{ID: id, Source: "orders", Entity: "order-1", Seq: seq}
	}
	done, duplicate, stale := consume.Done, consume.Duplicate, consume.Stale
	for name, tc := range map[string]struct {
		before, messages []consume.Message
		do               func(ctx context.Context, tx journal.Tx, id string) error
		done             int
		err              error
		results          []consume.Result // of messages[:done]
		ledger           []string
	}{
		"no messages":              {},
		"all":                      {messages: of("a", "b", "c"), done: 3, results: []consume.Result{done, done, done}, ledger: []string{"a", "b", "c"}},
		"the first fails":          {messages: of("x", "a"), err: down},
		"one in the middle fails":  {messages: of("a", "b", "x", "c"), done: 2, err: down, results: []consume.Result{done, done}, ledger: []string{"a", "b"}},
		"the last fails":           {messages: of("a", "b", "c", "x"), done: 3, err: down, results: []consume.Result{done, done, done}, ledger: []string{"a", "b", "c"}},
		"duplicates are done":      {before: of("a", "c"), messages: of("a", "b", "c"), done: 3, results: []consume.Result{duplicate, done, duplicate}, ledger: []string{"a", "c", "b"}},
		"one comes twice":          {messages: of("a", "a", "b"), done: 3, results: []consume.Result{done, duplicate, done}, ledger: []string{"a", "b"}},
		"stale ones are done":      {messages: []consume.Message{version("a", 2), version("b", 1), version("c", 3)}, done: 3, results: []consume.Result{done, stale, done}, ledger: []string{"a", "c"}},
		"what failed is no head":   {messages: []consume.Message{version("x", 2)}, err: down},
		"an ID used for another":   {before: []consume.Message{{ID: "b", Source: "orders", Fingerprint: []byte("1")}}, messages: []consume.Message{message("a"), {ID: "b", Source: "orders", Fingerprint: []byte("2")}}, done: 1, err: consume.ErrReused, results: []consume.Result{done}, ledger: []string{"b", "a"}},
		"the function has no SQL":  {messages: of("a", "b"), do: func(context.Context, journal.Tx, string) error { return nil }, done: 2, results: []consume.Result{done, done}},
		"a failed write is passed": {messages: of("a", "b", "c"), do: rollsBackAt("b"), done: 1, err: errAny, results: []consume.Result{done}, ledger: []string{"a"}},
	} {
		for _, together := range []int{1, 2, 100} {
			t.Run(fmt.Sprint(name, ", together ", together), func(t *testing.T) {
				t.Parallel()
				b := open(t)
				var outcomes []consume.Outcome
				c, err := consume.New(t.Context(), consume.Options{
					Journal: b.journal, Name: "log", Keep: time.Hour, Together: together,
					Observe: func(_ context.Context, o consume.Outcome) { outcomes = append(outcomes, o) },
				})
				require.NoError(t, err)
				for _, m := range tc.before {
					_, err := c.Do(t.Context(), m, book(m.ID))
					require.NoError(t, err)
				}
				outcomes = nil
				n, err := c.InOrder(t.Context(), tc.messages, func(ctx context.Context, tx journal.Tx, i int) error {
					id := tc.messages[i].ID
					switch {
					case id == "x":
						return errors.Join(book("half")(ctx, tx), down)
					case tc.do != nil:
						return tc.do(ctx, tx, id)
					}
					return book(id)(ctx, tx)
				})
				if tc.err == errAny {
					require.Error(t, err)
				} else {
					require.ErrorIs(t, err, tc.err)
				}
				assert.Equal(t, tc.done, n)
				assert.Equal(t, tc.ledger, b.ledger())
				var results []consume.Result
				for _, o := range outcomes {
					if o.Err == nil {
						results = append(results, o.Result)
					} else {
						assert.Equal(t, err, o.Err)
					}
				}
				assert.Equal(t, tc.results, results)
				want := len(tc.results)
				if tc.err != nil {
					want++
				}
				assert.Len(t, outcomes, want, "each is observed once")
			})
		}
	}
}

var errAny = errors.New("any error")

// rollsBackAt overlooks that SQLite has rolled the transaction back.
func rollsBackAt(bad string) func(context.Context, journal.Tx, string) error {
	return func(ctx context.Context, tx journal.Tx, id string) error {
		if id == bad {
			_, _ = tx.Driver().(*sql.Tx).ExecContext(ctx, "INSERT OR ROLLBACK INTO ledger VALUES (1, 'a'), (1, 'b')")
			return nil
		}
		return book(id)(ctx, tx)
	}
}

// The commit shows a row that breaks a deferred constraint. A smaller transaction follows with each call, so that the
// messages before get done.
func TestInOrderOfARowThatTheCommitRefuses(t *testing.T) {
	t.Parallel()
	b := open(t)
	c, err := consume.New(t.Context(), consume.Options{Journal: b.journal, Name: "log", Keep: time.Hour, Together: 100})
	require.NoError(t, err)
	inTx(b.journal, func(tx *sql.Tx) error {
		_, err := tx.Exec("CREATE TABLE refunds (payment INTEGER REFERENCES ledger (id) DEFERRABLE INITIALLY DEFERRED)")
		return err
	})
	var messages []consume.Message
	for i := range 8 {
		messages = append(messages, message(fmt.Sprint("m-", i)))
	}
	committed := 0
	for calls := 0; committed < 5; calls++ {
		require.Less(t, calls, 5)
		rest := messages[committed:]
		done, err := c.InOrder(t.Context(), rest, func(ctx context.Context, tx journal.Tx, i int) error {
			if rest[i].ID == "m-5" {
				_, err := tx.Driver().(*sql.Tx).ExecContext(ctx, "INSERT INTO refunds VALUES (99)")
				return err
			}
			return book(rest[i].ID)(ctx, tx)
		})
		require.Error(t, err)
		committed += done
	}
	assert.Equal(t, []string{"m-0", "m-1", "m-2", "m-3", "m-4"}, b.ledger())
}

// A panic leaves nothing from its transaction, and earlier messages are duplicates. If the context ends, InOrder
// stops, and counts what is committed.
func TestInOrderIsBrokenOff(t *testing.T) {
	t.Parallel()
	for _, together := range []int{1, 2} {
		b := open(t)
		var failed []error
		c, err := consume.New(t.Context(), consume.Options{Journal: b.journal, Name: "log", Keep: time.Hour, Together: together, Observe: func(_ context.Context, o consume.Outcome) {
			if o.Err != nil {
				failed = append(failed, o.Err)
			}
		}})
		require.NoError(t, err)
		messages := []consume.Message{message("m-0"), message("m-1"), message("m-2"), message("m-3"), message("m-4")}
		assert.PanicsWithValue(t, "a bug", func() {
			_, _ = c.InOrder(t.Context(), messages, func(ctx context.Context, tx journal.Tx, i int) error {
				if i == 2 {
					panic("a bug")
				}
				return book(messages[i].ID)(ctx, tx)
			})
		})
		assert.Equal(t, []error{consume.ErrPanicked}, failed)
		assert.Equal(t, []string{"m-0", "m-1"}, b.ledger())
		ctx, cancel := context.WithCancel(t.Context())
		done, err := c.InOrder(ctx, messages, func(ctx context.Context, tx journal.Tx, i int) error {
			if i == 4 {
				cancel()
			}
			return book(messages[i].ID)(ctx, tx)
		})
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, 4, done)
		assert.Equal(t, []string{"m-0", "m-1", "m-2", "m-3"}, b.ledger())
		_, err = c.Do(t.Context(), messages[0], nothing)
		require.NoError(t, err)
		_, err = c.Do(t.Context(), message("outer"), func(ctx context.Context, _ journal.Tx) error {
			done, err := c.InOrder(ctx, messages, func(context.Context, journal.Tx, int) error { return nil })
			assert.Zero(t, done)
			assert.ErrorIs(t, err, consume.ErrInTransaction)
			return nil
		})
		require.NoError(t, err)
	}
}
