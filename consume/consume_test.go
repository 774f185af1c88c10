package consume_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

// books is a consumer with a ledger in the journal's file.
type books struct {
	t       *testing.T
	journal *sqlite.Journal
	*consume.Consumer
}

func open(t *testing.T) *books {
	t.Helper()
	return openIn(t, t.TempDir())
}

func openIn(t *testing.T, folder string) *books {
	t.Helper()
	j, err := sqlite.Open(filepath.Join(folder, "books.db"), sqlite.Options{Volatile: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	tx, err := j.BeginSQL(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec("CREATE TABLE ledger (id INTEGER PRIMARY KEY, what TEXT)")
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	b := &books{t: t, journal: j}
	b.Consumer = b.another("books")
	return b
}

func (b *books) another(name string) *consume.Consumer {
	b.t.Helper()
	c, err := consume.New(b.t.Context(), consume.Options{
		Journal: b.journal, Name: name, Keep: 15 * 24 * time.Hour, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(b.t, err)
	return c
}

// book writes a ledger line.
func book(what string) func(context.Context, journal.Tx) error {
	return func(ctx context.Context, tx journal.Tx) error {
		_, err := tx.Driver().(*sql.Tx).ExecContext(ctx, "INSERT INTO ledger (what) VALUES (?)", what)
		return err
	}
}

func (b *books) ledger() (lines []string) {
	b.t.Helper()
	tx, err := b.journal.BeginSQL(b.t.Context())
	require.NoError(b.t, err)
	defer func() { _ = tx.Rollback() }()
	rows, err := tx.Query("SELECT what FROM ledger ORDER BY id")
	require.NoError(b.t, err)
	defer rows.Close()
	for rows.Next() {
		var what string
		require.NoError(b.t, rows.Scan(&what))
		lines = append(lines, what)
	}
	require.NoError(b.t, rows.Err())
	return lines
}

func message(id string) consume.Message { return consume.Message{ID: id, Source: "orders"} }

// A message takes effect once for each consumer, however often it is delivered.
func TestDo(t *testing.T) {
	t.Parallel()
	b := open(t)
	for i, want := range []consume.Result{consume.Done, consume.Duplicate, consume.Duplicate} {
		result, err := b.Do(t.Context(), message("m-1"), book("once"))
		require.NoError(t, err)
		assert.Equal(t, want, result, i)
	}
	for name, m := range map[string]consume.Message{
		"another message":                             message("m-2"),
		"another source":                              {ID: "m-1", Source: "refunds"},
		"a replay on purpose":                         {ID: "m-1", Source: "orders", Replay: "2026-11"},
		"a long identifier":                           message(strings.Repeat("m", 1000)),
		"a longer identifier with the same beginning": message(strings.Repeat("m", 1001)),
		"a source that looks the same":                {ID: "1", Source: "orders m-"},
	} {
		result, err := b.Do(t.Context(), m, book(name))
		require.NoError(t, err)
		assert.Equal(t, consume.Done, result, name)
	}
	result, err := b.another("mails").Do(t.Context(), message("m-1"), book("another consumer"))
	require.NoError(t, err)
	assert.Equal(t, consume.Done, result)
	assert.Len(t, b.ledger(), 8)
	for r, err := range b.journal.ListReceipts(t.Context(), journal.ReceiptFilter{}) {
		require.NoError(t, err)
		assert.LessOrEqual(t, len(r.Key), 512)
	}
}

// A function that fails leaves nothing, and is called again.
func TestFunctionThatFails(t *testing.T) {
	t.Parallel()
	b := open(t)
	failure := errors.New("not today")
	_, err := b.Do(t.Context(), message("m-1"), func(ctx context.Context, tx journal.Tx) error {
		return errors.Join(book("half")(ctx, tx), failure)
	})
	require.ErrorIs(t, err, failure)
	assert.Panics(t, func() {
		_, _ = b.Do(t.Context(), message("m-1"), func(ctx context.Context, tx journal.Tx) error {
			_ = book("half")(ctx, tx)
			panic("a bug")
		})
	})
	assert.Empty(t, b.ledger())
	result, err := b.Do(t.Context(), message("m-1"), book("whole"))
	require.NoError(t, err)
	assert.Equal(t, consume.Done, result)
	assert.Equal(t, []string{"whole"}, b.ledger())
}

// A function that commits by itself stops its message, which is not done twice.
func TestFunctionThatCommitsTheTransaction(t *testing.T) {
	t.Parallel()
	b := open(t)
	for range 2 {
		_, err := b.Do(t.Context(), message("m-1"), func(ctx context.Context, tx journal.Tx) error {
			return errors.Join(book("once")(ctx, tx), tx.Commit(ctx))
		})
		require.Error(t, err)
	}
	_, err := b.Do(t.Context(), message("m-1"), book("twice"))
	require.ErrorIs(t, err, consume.ErrUnknown)
	assert.Equal(t, []string{"once"}, b.ledger())
}

// A function that harms the transaction marks no message whose effect is not there, and leaves none without its mark.
func TestFunctionsThatHarmTheTransaction(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		harm   string
		ledger []string
		then   error
	}{
		"an error is overlooked after SQLite has rolled back": {"INSERT OR ROLLBACK INTO ledger VALUES (1, 'a'), (1, 'b')", nil, nil},
		"it rolls back":                 {"ROLLBACK", nil, nil},
		"it rolls back and begins anew": {"ROLLBACK; BEGIN", nil, nil},
		"it commits":                    {"COMMIT", []string{"first"}, consume.ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			_, err := b.Do(t.Context(), message("m-1"), func(ctx context.Context, tx journal.Tx) error {
				err := book("first")(ctx, tx)
				for part := range strings.SplitSeq(row.harm, "; ") {
					_, _ = tx.Driver().(*sql.Tx).Exec(part)
				}
				return err
			})
			require.Error(t, err)
			assert.Equal(t, row.ledger, b.ledger())
			_, err = b.Do(t.Context(), message("m-1"), book("second"))
			require.ErrorIs(t, err, row.then)
			assert.Len(t, b.ledger(), 1)
		})
	}
}

// A function that ends its goroutine leaves nothing, and the message is delivered again.
func TestFunctionThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	b := open(t)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = b.Do(t.Context(), message("m-1"), func(ctx context.Context, tx journal.Tx) error {
			_ = book("half")(ctx, tx)
			runtime.Goexit()
			return nil
		})
	}()
	<-over
	result, err := b.Do(t.Context(), message("m-1"), book("whole"))
	require.NoError(t, err)
	assert.Equal(t, consume.Done, result)
	assert.Equal(t, []string{"whole"}, b.ledger())
}

// Versions may begin at any number, and the first that comes is done.
func TestOrderOfAnyNumbers(t *testing.T) {
	t.Parallel()
	b := open(t)
	for i, row := range []struct {
		seq  int64
		want consume.Result
	}{{math.MinInt64, consume.Done}, {-5, consume.Done}, {-7, consume.Stale}, {0, consume.Done}, {0, consume.Stale}, {math.MaxInt64, consume.Done}, {math.MaxInt64, consume.Stale}} {
		m := consume.Message{ID: fmt.Sprint("m-", i), Source: "orders", Entity: "order-1", Seq: row.seq}
		result, err := b.Do(t.Context(), m, book(m.ID))
		require.NoError(t, err)
		assert.Equal(t, row.want, result, i)
	}
}

// A message with another one's identifier is put aside.
func TestIdentifierThatIsReused(t *testing.T) {
	t.Parallel()
	b := open(t)
	m := message("m-1")
	m.Fingerprint = []byte("a")
	_, err := b.Do(t.Context(), m, book("a"))
	require.NoError(t, err)
	m.Fingerprint = []byte("b")
	_, err = b.Do(t.Context(), m, book("b"))
	require.ErrorIs(t, err, consume.ErrReused)
	result, err := b.Do(t.Context(), message("m-1"), book("c"))
	require.NoError(t, err)
	assert.Equal(t, consume.Duplicate, result, "contents are not compared")
	assert.Equal(t, []string{"a"}, b.ledger())
}

// A message that comes after a later one of its entity is passed over, and stays so.
func TestOrder(t *testing.T) {
	t.Parallel()
	b := open(t)
	of := func(id string, seq int64) consume.Message {
		return consume.Message{ID: id, Source: "orders", Entity: "order-1", Seq: seq}
	}
	for _, row := range []struct {
		m    consume.Message
		want consume.Result
	}{
		{of("m-2", 2), consume.Done}, {of("m-1", 1), consume.Stale}, {of("m-1", 1), consume.Duplicate}, {of("m-3", 3), consume.Done},
		{consume.Message{ID: "m-4", Source: "orders", Entity: "order-2", Seq: 1}, consume.Done},
	} {
		result, err := b.Do(t.Context(), row.m, book(row.m.ID))
		require.NoError(t, err)
		assert.Equal(t, row.want, result, row.m.ID)
	}
	assert.Equal(t, []string{"m-2", "m-3", "m-4"}, b.ledger())
	failure := errors.New("not today")
	_, err := b.Do(t.Context(), of("m-5", 5), func(context.Context, journal.Tx) error { return failure })
	require.ErrorIs(t, err, failure)
	result, err := b.Do(t.Context(), of("m-4b", 4), book("m-4b"))
	require.NoError(t, err)
	assert.Equal(t, consume.Done, result, "what failed does not count")
}

// Two workers share a Kafka partition, and the later offset is committed first. The earlier one is no duplicate.
func TestOffsetsOutOfOrder(t *testing.T) {
	t.Parallel()
	b := open(t)
	for _, offset := range []string{"5", "4", "6"} {
		result, err := b.Do(t.Context(), message(offset), book(offset))
		require.NoError(t, err)
		assert.Equal(t, consume.Done, result, offset)
	}
	assert.Equal(t, []string{"5", "4", "6"}, b.ledger())
}

// Each of several deploys breaks a healthy message off in its handler. It is never acknowledged, and then done.
func TestMessageThatIsBrokenOffOften(t *testing.T) {
	t.Parallel()
	b := open(t)
	for range 20 {
		ctx, deploy := context.WithCancel(t.Context())
		_, err := b.Do(ctx, message("m-1"), func(ctx context.Context, tx journal.Tx) error {
			err := book("half")(ctx, tx)
			deploy()
			return err
		})
		require.Error(t, err)
	}
	assert.Empty(t, b.ledger())
	result, err := b.Do(t.Context(), message("m-1"), book("whole"))
	require.NoError(t, err)
	assert.Equal(t, consume.Done, result)
	assert.Equal(t, []string{"whole"}, b.ledger())
}

// Deliveries of many messages by many workers, each several times, take effect once each.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	b := open(t)
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 20 {
				id := fmt.Sprint("m-", (i+5*worker)%20)
				_, err := b.Do(t.Context(), message(id), book(id))
				assert.NoError(t, err)
			}
		})
	}
	all.Wait()
	lines := b.ledger()
	assert.Len(t, lines, 20)
	seen := map[string]bool{}
	for _, line := range lines {
		assert.False(t, seen[line], line)
		seen[line] = true
	}
}

// A function makes no call within its transaction, since that may be rolled back after it. The calls that it enqueues are there if and
// only if the message is marked.
func TestCallsOfAFunction(t *testing.T) {
	t.Parallel()
	b := open(t)
	client, err := onceward.New(onceward.Config{Journal: b.journal, Providers: []providers.Provider{providers.Stripe()}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Shutdown(context.Background()) })
	failure := errors.New("not today")
	for i, fails := range []error{failure, nil, nil} {
		_, err := b.Do(t.Context(), message("m-1"), func(ctx context.Context, tx journal.Tx) error {
			ctx = onceward.WithOperation(ctx, "charge of m-1")
			charge, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.stripe.com/v1/charges", strings.NewReader("amount=1"))
			require.NoError(t, err)
			charge.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			_, err = client.HTTPClient().Do(charge)
			require.ErrorIs(t, err, onceward.ErrOpenTransaction)
			charge.Body = io.NopCloser(strings.NewReader("amount=1"))
			_, err = client.Enqueue(ctx, tx, charge)
			return errors.Join(err, fails)
		})
		require.ErrorIs(t, err, fails)
		n := 0
		for _, err := range b.journal.List(t.Context(), journal.Filter{}) {
			require.NoError(t, err)
			n++
		}
		assert.Equal(t, min(i, 1), n)
	}
}

// Invalid options and messages are refused with advice.
func TestInvalidOptionsAndMessages(t *testing.T) {
	t.Parallel()
	b := open(t)
	for want, o := range map[string]consume.Options{
		"Options.Journal":         {Name: "a", Keep: time.Hour},
		"Options.Name":            {Journal: b.journal, Name: "A", Keep: time.Hour},
		"Options.Keep is 0s":      {Journal: b.journal, Name: "a"},
		"Options.Together is -1":  {Journal: b.journal, Name: "a", Keep: time.Hour, Together: -1},
		"Options.Together is 101": {Journal: b.journal, Name: "a", Keep: time.Hour, Together: 101},
		"Options.Keep is 15ns":    {Journal: b.journal, Name: "a", Keep: 15}, // a message that comes again at once would be done again
	} {
		_, err := consume.New(t.Context(), o)
		require.ErrorContains(t, err, want)
	}
	for _, m := range []consume.Message{{ID: "m-1"}, {Source: "orders"}, {ID: "m-1", Source: "a\x00b"}, {ID: "m-1", Source: "a", Replay: "\x00"}} {
		_, err := b.Do(t.Context(), m, book("never"))
		require.ErrorContains(t, err, "Message.Source")
	}
	assert.Empty(t, b.ledger())
}
