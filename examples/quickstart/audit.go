package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// left is what the storm has left.
type left struct {
	plain      bool
	invoices   int
	effects    int // in the provider's ledger
	duplicates int // effects beyond the first of an invoice
	lost       int // invoices without an effect
	unknown    int // operations of which the journal can't tell whether they took effect
	unpaid     int // invoices that the payer never called paid
	kills      int
	wanted     int // kills that were asked for
	resumed    int // operations that a later payer took over from a killed one
}

// audit compares the invoices with the provider's ledger and the payer's journal.
func (s *storm) audit(ctx context.Context) (left, error) {
	l := left{plain: s.plain, invoices: len(s.invoices), kills: s.seen.kills, wanted: s.kills, resumed: len(s.seen.resumes)}
	charged := map[string]int{}
	for _, e := range s.box.Effects() {
		l.effects++
		charged[invoiceOf(e)]++
	}
	for _, inv := range s.invoices {
		if charged[inv.ID] == 0 {
			l.lost++
		}
		if !s.seen.paidSet[inv.ID] {
			l.unpaid++
		}
	}
	l.duplicates = l.effects - len(charged)
	if s.plain {
		return l, nil
	}
	unknown, err := countUnknown(ctx, filepath.Join(s.dir, journalFile))
	l.unknown = unknown
	return l, err
}

func countUnknown(ctx context.Context, path string) (n int, err error) {
	j, err := sqlite.Open(path, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	for _, err := range j.List(ctx, journal.Filter{States: []journal.State{journal.Unknown}}) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (l left) print(w io.Writer) {
	unknown, resumed := strconv.Itoa(l.unknown), strconv.Itoa(l.resumed)
	if l.plain { // nothing keeps track of either
		unknown, resumed = "–", "–"
	}
	fmt.Fprintln(w)
	for _, row := range [][2]string{
		{"invoices", strconv.Itoa(l.invoices)},
		{"effects in the provider's ledger", strconv.Itoa(l.effects)},
		{"duplicates", strconv.Itoa(l.duplicates)},
		{"lost", strconv.Itoa(l.lost)},
		{"unknown", unknown},
		{"kills", strconv.Itoa(l.kills)},
		{"operations resumed", resumed},
	} {
		fmt.Fprintf(w, "%-34s%6s\n", row[0], row[1])
	}
	fmt.Fprintln(w)
}

// verdict is nil if every invoice was charged once, in spite of every kill.
func (l left) verdict() error {
	var errs []error
	for _, wrong := range []struct {
		count int
		what  string
	}{
		{l.duplicates, "charges beyond the first of an invoice"},
		{l.lost, "invoices without a charge"},
		{l.unknown, "operations of unknown outcome"},
		{l.unpaid, "invoices that the payer did not finish"},
		{l.wanted - l.kills, "kills that did not take place"},
	} {
		if wrong.count > 0 {
			errs = append(errs, fmt.Errorf("%s: %d", wrong.what, wrong.count))
		}
	}
	return errors.Join(errs...)
}
