package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/providers"
)

// ordersTable is the shop's own, in the journal's database.
const ordersTable = `CREATE TABLE orders (id text PRIMARY KEY, charged int NOT NULL DEFAULT 0)`

// deployment is whose journal it is: a database copy under another name sends nothing.
const deployment = "fleet"

// payer is one fleet process.
type payer struct {
	name   string
	stripe string // URL
	pool   *pgxpool.Pool
	client *onceward.Client
}

// pay has every order charged once, whichever payer does it. Killed at any moment and started again, it goes on. It returns
// once all are settled, or when ctx ends, as by a deploy.
func pay(ctx context.Context, name, database, stripe string, orders int) (err error) {
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer pool.Close()
	j, err := postgres.Open(ctx, database, postgres.Options{
		Deployment: deployment,
		Failover:   postgres.MayLose, // there is one server in this box; for money, have a synchronous standby, and leave this out
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()

	at, err := url.Parse(stripe)
	if err != nil {
		return err
	}
	contract := providers.Stripe()
	contract.Hosts = []string{at.Host} // the one in the box, in place of api.stripe.com
	p := &payer{name: name, stripe: stripe, pool: pool}
	p.client, err = onceward.New(onceward.Config{
		Journal:   j,
		Providers: []providers.Provider{contract},
		Authorize: func(req *http.Request) error {
			req.Header.Set("Authorization", "Bearer sk_test_in_a_box")
			req.Header.Set("User-Agent", name)
			return nil
		},
		Backoff:  backoff.Policy{Initial: 50 * time.Millisecond, Max: time.Second},
		Outcomes: &onceward.Outcomes{HandleTx: p.settled, Steps: true},
	})
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = p.client.Close() })()
	defer func() { err = errors.Join(err, p.client.Close()) }()
	go p.client.Run(context.WithoutCancel(ctx))

	return each(orders, func(i int) error { return p.order(ctx, i) })
}

// settled writes a charge's outcome to the order. That and the delivery's record are one commit.
func (p *payer) settled(ctx context.Context, tx journal.Tx, op onceward.Operation) error {
	if op.Effect != onceward.EffectExecuted { // also a decline by a 200
		return nil
	}
	order, _, _ := strings.Cut(op.ID, "/")
	_, err := tx.Driver().(pgx.Tx).Exec(ctx, "UPDATE orders SET charged = charged + 1 WHERE id = $1", order)
	return err
}

// order has an order charged, and returns when it is settled and the order's row says so.
func (p *payer) order(ctx context.Context, i int) error {
	id := orderID(i)
	named := onceward.WithOperation(context.WithoutCancel(ctx), id+"/charge")
	ask := p.charge
	if i%2 == 0 {
		ask = p.enqueue
	}
	for {
		err := ask(named, id)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, ours := errors.AsType[*onceward.Error](err); err != nil && !ours {
			return err
		}
		if op, err := p.client.Wait(ctx, onceward.Ref{ID: id + "/charge"}); err == nil && op.Effect == onceward.EffectExecuted && p.marked(ctx, id) {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// marked reports whether the order's row says that it is charged. If the payer that charged it was killed or shut
// down before the delivery, the next payer that asks for the charge delivers it.
func (p *payer) marked(ctx context.Context, id string) bool {
	var charged int
	err := p.pool.QueryRow(ctx, "SELECT charged FROM orders WHERE id = $1", id).Scan(&charged)
	return err == nil && charged > 0
}

// charge asks Stripe by a separate request.
func (p *payer) charge(ctx context.Context, id string) error {
	if _, err := p.pool.Exec(ctx, "INSERT INTO orders (id) VALUES ($1) ON CONFLICT DO NOTHING", id); err != nil {
		return err
	}
	req, err := p.request(ctx, id)
	if err != nil {
		return err
	}
	resp, err := p.client.HTTPClient().Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// enqueue records the charge together with the order: both, or neither.
func (p *payer) enqueue(ctx context.Context, id string) error {
	req, err := p.request(ctx, id)
	if err != nil {
		return err
	}
	if err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders (id) VALUES ($1) ON CONFLICT DO NOTHING", id); err != nil {
			return err
		}
		_, err := p.client.Enqueue(ctx, postgres.Pgx(tx), req)
		return err
	}); err != nil {
		return err
	}
	p.client.Wake() // now, and not within a second
	return nil
}

func (p *payer) request(ctx context.Context, id string) (*http.Request, error) {
	form := url.Values{"amount": {"2000"}, "currency": {"eur"}, "metadata[order]": {id}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.stripe+"/v1/charges", strings.NewReader(form.Encode()))
	if err == nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return req, err
}

func orderID(i int) string { return fmt.Sprintf("order-%04d", i) }

// atOnce is how many orders a payer works on at once.
const atOnce = 8

// each calls f for every order, in an order of its own, and returns the first error.
func each(orders int, f func(int) error) error {
	next := make(chan int)
	failed := make(chan error, atOnce)
	var group sync.WaitGroup
	for range atOnce {
		group.Go(func() {
			for i := range next {
				if err := f(i); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	defer group.Wait()
	defer close(next)
	for _, i := range rand.Perm(orders) {
		select {
		case next <- i:
		case err := <-failed:
			return err
		}
	}
	return nil
}
