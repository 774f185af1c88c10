// Command latestates books states that come late: a failed payout, a failed refund, a debit charged back, and a dispute
// won. Webhooks bring these states in the wrong order and twice, and each is booked once:
//
//	go run ./examples/latestates
//
// It works offline, against the Stripe in stripe.go. It exits with 0 only if the books are right.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/webhook"
)

func main() {
	folder, err := os.MkdirTemp("", "onceward-latestates")
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(run(context.Background(), filepath.Join(folder, "payments.db")), os.RemoveAll(folder)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path string) error {
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return err
	}
	defer j.Close()
	if err := inTx(ctx, j, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "CREATE TABLE bookings (operation TEXT, entry TEXT, amount INTEGER)")
		return err
	}); err != nil {
		return err
	}
	stripe := httptest.NewServer(answers())
	defer stripe.Close()
	booked := make(chan struct{}, 10)
	client, err := onceward.New(onceward.Config{
		Journal: j, Providers: []providers.Provider{tableOf(stripe)},
		Reconcile: &onceward.Reconcile{}, // keeps each object's id, by which an event finds its operation
		Outcomes: &onceward.Outcomes{HandleTx: func(ctx context.Context, tx journal.Tx, op onceward.Operation) error {
			defer func() { booked <- struct{}{} }()
			return book(ctx, tx, op.ID, op.Effect.String(), payments[op.ID].amount)
		}},
	})
	if err != nil {
		return err
	}
	defer client.Close()
	go client.Run(ctx)
	for name, p := range payments {
		if err := p.send(ctx, client, name, stripe.URL); err != nil {
			return err
		}
	}
	for range payments {
		<-booked
	}

	once, err := consume.New(ctx, consume.Options{Journal: j, Name: "late-states", Keep: 35 * 24 * time.Hour})
	if err != nil {
		return err
	}
	verifier, err := webhook.Stripe(secret)
	if err != nil {
		return err
	}
	hooks := httptest.NewServer(client.WebhookHandler("stripe", verifier, once.WebhookHandler(consume.Events("stripe"), bookLate)))
	defer hooks.Close()
	for range 2 {
		for _, e := range lateStates {
			if err := e.deliver(ctx, hooks.URL); err != nil {
				return err
			}
		}
	}
	return audit(ctx, j, client)
}

// signs say which way an event moves money. The handler books that difference, so no event order is wrong.
var signs = map[string]int{"payout.failed": 1, "refund.failed": 1, "charge.dispute.funds_withdrawn": -1, "charge.dispute.funds_reinstated": 1}

func bookLate(ctx context.Context, tx journal.Tx, _ consume.Message, body []byte) error {
	var e event
	if err := json.Unmarshal(body, &e); err != nil {
		return err
	}
	if signs[e.Type] == 0 {
		return nil // an event of another kind
	}
	operation := "none: look at " + e.ID // for a person
	if ops := onceward.OperationsOf(ctx); len(ops) == 1 {
		operation = ops[0].ID
	}
	return book(ctx, tx, operation, e.Type, signs[e.Type]*e.Data.Object.Amount)
}

func book(ctx context.Context, tx journal.Tx, operation, entry string, amount int) error {
	_, err := tx.Driver().(*sql.Tx).ExecContext(ctx, "INSERT INTO bookings VALUES (?, ?, ?)", operation, entry, amount)
	return err
}

// audit prints the bookings, and returns an error if they are wrong.
func audit(ctx context.Context, j *sqlite.Journal, client *onceward.Client) error {
	return inTx(ctx, j, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT operation, entry, amount FROM bookings ORDER BY operation, rowid")
		if err != nil {
			return err
		}
		defer rows.Close()
		count, sums := 0, map[string]int{}
		for ; rows.Next(); count++ {
			var operation, entry string
			var amount int
			if err := rows.Scan(&operation, &entry, &amount); err != nil {
				return err
			}
			fmt.Printf("%-8s %-32s %6d\n", operation, entry, amount)
			sums[operation] += amount
		}
		if err := rows.Err(); err != nil {
			return err
		}
		if want := len(payments) + len(lateStates); count != want || sums["payout"] != 0 || sums["refund"] != 0 || sums["debit"] != 0 || sums["charge"] != 7000 {
			return fmt.Errorf("%d bookings instead of %d, with the sums %v", count, want, sums)
		}
		return nil
	})
}

func inTx(ctx context.Context, j *sqlite.Journal, do func(*sql.Tx) error) error {
	tx, err := j.BeginSQL(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	return errors.Join(do(tx), tx.Commit())
}
