package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
)

// left is what a storm has left.
type left struct {
	payer      string
	invoices   int
	effects    int // in the providers' ledgers
	duplicates int // effects beyond an invoice's first
	keyed      int // … of these, at the provider that takes keys
	lost       int // invoices without an effect that no one looks after
	misjudged  int // invoices that took effect, and that the payer calls failed or knows nothing of
	unknown    int // invoices that the payer says are for a person to look up
	requests   int
	kills      int
	wanted     int // kills that were asked for
	deploys    int
	resumed    int // operations that a later payer took over from a killed one
}

// audit compares the invoices with the providers' ledgers and what the payer told.
func (s *storm) audit() left {
	l := left{payer: s.payer, invoices: len(s.invoices), requests: s.seen.requested(), kills: s.seen.kills,
		wanted: s.kills, deploys: s.seen.deploys, resumed: s.seen.count("resumed")}
	effects := s.boxes.effects()
	for _, inv := range s.invoices {
		n := effects[inv.ID]
		l.effects += n
		if n > 1 {
			l.duplicates += n - 1
			if inv.Kind != letter {
				l.keyed += n - 1
			}
		}
		switch {
		case s.seen.has("paid", inv.ID) && n > 0:
		case s.seen.has("unknown", inv.ID):
			l.unknown++
		case n == 0:
			l.lost++
		default:
			l.misjudged++
		}
	}
	return l
}

// print writes a column for each payer.
func print(w io.Writer, columns []left) {
	rows := []struct {
		title string
		count func(left) int
		ours  bool // the others do not track that
	}{
		{"invoices", func(l left) int { return l.invoices }, false},
		{"effects in the providers' ledgers", func(l left) int { return l.effects }, false},
		{"duplicates", func(l left) int { return l.duplicates }, false},
		{"  where keys are taken", func(l left) int { return l.keyed }, false},
		{"lost: never made, never will be", func(l left) int { return l.lost }, false},
		{"made, but taken for failed or unheard of", func(l left) int { return l.misjudged }, false},
		{"unknown, and said so: for a person", func(l left) int { return l.unknown }, true},
		{"requests", func(l left) int { return l.requests }, false},
		{"kills", func(l left) int { return l.kills }, false},
		{"deploys", func(l left) int { return l.deploys }, false},
		{"operations resumed", func(l left) int { return l.resumed }, true},
	}
	titles := map[string][2]string{
		"random": {"retryablehttp,", "random key"}, "own": {"retryablehttp,", "invoice's key"}, "onceward": {"", "Onceward"},
	}
	fmt.Fprintln(w)
	for line := range 2 {
		fmt.Fprintf(w, "%-42s", "")
		for _, l := range columns {
			fmt.Fprintf(w, "%16s", titles[l.payer][line])
		}
		fmt.Fprintln(w)
	}
	for _, row := range rows {
		fmt.Fprintf(w, "%-42s", row.title)
		for _, l := range columns {
			cell := strconv.Itoa(row.count(l))
			if row.ours && l.payer != "onceward" {
				cell = "–"
			}
			fmt.Fprintf(w, "%16s", cell)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

// verdict is nil if every invoice was charged once, in spite of every kill, and nothing is
// left for a person.
func (l left) verdict() error {
	var errs []error
	for _, wrong := range []struct {
		count int
		what  string
	}{
		{l.duplicates, "effects beyond the first of an invoice"},
		{l.lost, "invoices without an effect"},
		{l.misjudged, "invoices that took effect unknown to the payer"},
		{l.unknown, "invoices of unknown outcome"},
		{l.wanted - l.kills, "kills that did not take place"},
	} {
		if wrong.count > 0 {
			errs = append(errs, fmt.Errorf("%s: %d", wrong.what, wrong.count))
		}
	}
	return errors.Join(errs...)
}
