package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed invoices.csv
var invoicesCSV []byte

type invoice struct {
	ID       string
	Customer string
	Amount   int // in the currency's smallest unit
	Currency string
	Kind     kind
}

// kind is what is difficult about an invoice.
type kind int

const (
	steady     kind = iota // it is asked for again and again, alike, until it is paid
	varied                 // alike, but that every request has another note in it
	once                   // once a provider has seen it, no later payer asks for it
	letter                 // a courier takes no keys
	scanned                // a provider in Square's manner: nothing is sent again, and looked for by a scan
	conflicted             // one in GoCardless's: a repeat is answered by 409 with what the first one made
	kinds
)

func readInvoices() ([]invoice, error) {
	r := csv.NewReader(bytes.NewReader(invoicesCSV))
	r.FieldsPerRecord = 4
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("invoices.csv: %w", err)
	}
	if len(rows) < 2 {
		return nil, errors.New("invoices.csv has no invoices")
	}
	var invoices []invoice
	for i, row := range rows[1:] {
		amount, err := strconv.Atoi(row[2])
		if err != nil {
			return nil, fmt.Errorf("invoices.csv: the amount of %s: %w", row[0], err)
		}
		invoices = append(invoices, invoice{ID: row[0], Customer: row[1], Amount: amount, Currency: row[3], Kind: kind(i) % kinds})
	}
	return invoices, nil
}

// request builds the request for the charge, or the letter, anew each time, as most programs do. Square takes a key
// in the body, the others in a header.
func (inv invoice) request(ctx context.Context, p *providersAt, key string) (*http.Request, error) {
	switch inv.Kind {
	case scanned:
		payment := map[string]any{"source_id": "cnon:card-on-file", "reference_id": inv.ID, "amount_money": map[string]any{"amount": inv.Amount, "currency": inv.Currency}}
		if key != "" {
			payment["idempotency_key"] = key
		}
		return inJSON(ctx, p.square.JoinPath("v2/payments"), payment)
	case conflicted:
		return inJSON(ctx, p.gocardless.JoinPath("payments"), map[string]any{"payments": map[string]any{
			"amount": inv.Amount, "currency": inv.Currency, "metadata": map[string]any{"invoice": inv.ID}, "links": map[string]any{"mandate": "MD123"},
		}})
	}
	form := url.Values{
		"amount":            {strconv.Itoa(inv.Amount)},
		"currency":          {inv.Currency},
		"customer":          {inv.Customer},
		"metadata[invoice]": {inv.ID},
	}
	if inv.Kind == varied {
		form.Set("description", "asked at "+time.Now().Format(time.RFC3339Nano))
	}
	to := p.stripe.JoinPath("v1/charges")
	if inv.Kind == letter {
		to = p.courier.JoinPath("v1/letters")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return req, nil
}

func inJSON(ctx context.Context, to *url.URL, body any) (*http.Request, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return req, nil
}

// providersAt are the addresses of the providers, and where their webhooks are sent to.
type providersAt struct{ stripe, courier, square, gocardless, hooks *url.URL }

// workers is how many invoices are paid at once.
const workers = 8

// each calls pay for every invoice and returns all that went wrong.
func each(invoices []invoice, pay func(invoice) error) error {
	var (
		group sync.WaitGroup
		slots = make(chan struct{}, workers)
		errs  = make([]error, len(invoices))
	)
	for i, inv := range invoices {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			if err := pay(inv); err != nil {
				errs[i] = fmt.Errorf("%s: %w", inv.ID, err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
