package consume_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/journal"
)

// Kafka acknowledges by offset: a commit includes all earlier messages of the partition. A consumer that goes on after an
// error loses the message that failed. One that stays at the message, or begins again at the committed offset, does not.
func TestMessagesOfAPartition(t *testing.T) {
	const messages = 10
	for name, tc := range map[string]struct {
		goesOn, restarts bool
		lost             []string
	}{
		"goes on after an error":               {goesOn: true, lost: []string{"m-3", "m-4"}},
		"stays at the message":                 {},
		"begins again at the committed offset": {restarts: true},
	} {
		t.Run(name, func(t *testing.T) {
			j, end := openLedger("CREATE TABLE ledger (item TEXT)")
			defer end()
			c, err := consume.New(t.Context(), consume.Options{Journal: j, Name: "ledger", Keep: 24 * time.Hour})
			require.NoError(t, err)
			fails := map[string]int{"m-3": 2, "m-4": 1}
			committed := 0
			for starts := 0; committed < messages; starts++ {
				require.Less(t, starts, 10)
				for offset := committed; offset < messages; {
					item := fmt.Sprint("m-", offset)
					_, err := c.Do(t.Context(), consume.Message{ID: item, Source: "topic"}, func(ctx context.Context, tx journal.Tx) error {
						if fails[item]--; fails[item] >= 0 {
							return errors.New("down")
						}
						_, err := tx.Driver().(*sql.Tx).ExecContext(ctx, "INSERT INTO ledger VALUES (?)", item)
						return err
					})
					switch {
					case err == nil:
						offset++
						committed = offset
					case tc.goesOn:
						offset++
					case tc.restarts:
						offset = messages
					}
				}
			}
			var lost []string
			inTx(j, func(tx *sql.Tx) error {
				for i := range messages {
					var n int
					if err := tx.QueryRow("SELECT count(*) FROM ledger WHERE item = ?", fmt.Sprint("m-", i)).Scan(&n); err != nil {
						return err
					}
					if n == 0 {
						lost = append(lost, fmt.Sprint("m-", i))
					}
					assert.LessOrEqual(t, n, 1)
				}
				return nil
			})
			assert.Equal(t, tc.lost, lost)
		})
	}
}
