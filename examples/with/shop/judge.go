package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// left is what the storm has left.
type left struct {
	*world
	store store
	ids   []string // for the orders that the customers were told
	rows  []row
}

// row is one kind of effect: how often there is one for an order or a key.
type row struct {
	name                 string
	made, twice, missing int
	strange              int // effects without an order
}

// look counts.
func (l *left) look(ctx context.Context) error {
	l.rows = nil
	for _, table := range []struct{ name, table, column string }{
		{"orders", "orders", "id"}, {"bookings, by webhook", "bookings", "order_id"}, {"deliveries, by the flow", "deliveries", "order_id"},
	} {
		n, err := l.store.count(ctx, table.table, table.column)
		if err != nil {
			return err
		}
		l.add(table.name, n)
	}
	charges, parcels := map[string]int{}, map[string]int{}
	for _, e := range l.stripe.Effects() {
		form, err := url.ParseQuery(string(e.Body))
		if err != nil {
			return err
		}
		charges[form.Get("description")]++
	}
	for _, e := range l.courier.Effects() {
		var d delivery
		if err := json.Unmarshal(e.Body, &d); err != nil {
			return err
		}
		parcels[d.Order]++
	}
	l.add("charges at Stripe", charges)
	l.add("parcels at the courier", parcels)
	return nil
}

// add has a row for the effects, by order.
func (l *left) add(name string, n map[string]int) {
	r := row{name: name}
	known := map[string]bool{}
	for _, id := range l.ids {
		known[id] = true
		switch {
		case n[id] == 0:
			r.missing++
		case n[id] > 1:
			r.twice++
		}
	}
	for id, made := range n {
		r.made += made
		if !known[id] {
			r.strange++
		}
	}
	l.rows = append(l.rows, r)
}

func (l *left) complete() bool {
	for _, r := range l.rows {
		if r.missing > 0 {
			return false
		}
	}
	return true
}

// keys is the row for the customers' keys: an answer each.
func (l *left) keys() row {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := row{name: "answers to a key"}
	for _, answers := range l.answers {
		r.made += len(answers)
		switch {
		case len(answers) == 0:
			r.missing++
		case len(answers) > 1:
			r.twice++
		}
	}
	return r
}

// print writes a table.
func (l *left) print(took time.Duration) {
	fmt.Fprintf(l.stdout, "\n%-28s%8s%8s%8s\n", "", "made", "twice", "missing")
	for _, r := range append(l.rows, l.keys()) {
		fmt.Fprintf(l.stdout, "%-28s%8d%8d%8d\n", r.name, r.made, r.twice+r.strange, r.missing)
	}
	fmt.Fprintf(l.stdout, "\n%-28s%8d\n%-28s%8d\n%-28s%8d\n%-28s%8.1f\n", "requests of the customers", l.requests,
		"webhooks of Stripe", len(l.stripe.Deliveries()), "kills", l.killed, "seconds", took.Seconds())
}

// verdict is nil if each exists once.
func (l *left) verdict() error {
	var errs []error
	for _, r := range append(l.rows, l.keys()) {
		if r.twice+r.strange+r.missing > 0 {
			errs = append(errs, fmt.Errorf("%s: %d twice, %d of no order, %d missing", r.name, r.twice, r.strange, r.missing))
		}
	}
	if l.killed < l.kills {
		errs = append(errs, fmt.Errorf("%d kills did not take place", l.kills-l.killed))
	}
	return errors.Join(errs...)
}
