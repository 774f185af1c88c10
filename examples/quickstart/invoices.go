package main

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync"
)

//go:embed invoices.csv
var invoicesCSV []byte

type invoice struct {
	ID       string
	Customer string
	Amount   int // in the currency's smallest unit
	Currency string
}

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
	for _, row := range rows[1:] {
		amount, err := strconv.Atoi(row[2])
		if err != nil {
			return nil, fmt.Errorf("invoices.csv: the amount of %s: %w", row[0], err)
		}
		invoices = append(invoices, invoice{ID: row[0], Customer: row[1], Amount: amount, Currency: row[3]})
	}
	return invoices, nil
}

// form is the body of the charge.
func (inv invoice) form() url.Values {
	return url.Values{
		"amount":            {strconv.Itoa(inv.Amount)},
		"currency":          {inv.Currency},
		"customer":          {inv.Customer},
		"metadata[invoice]": {inv.ID},
	}
}

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
