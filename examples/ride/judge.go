package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers/providertest"
)

// judge compares the riders' answers with the providers' ledgers, the service's own table and its flows.
func (w *world) judge(answers []int) error {
	want, declined := map[string]int{}, 0
	for i, status := range answers {
		rider := riderName(i)
		want[rider+" POST /bookings"] = 1
		switch {
		case isBroke(rider) != (status == http.StatusPaymentRequired):
			return fmt.Errorf("%s was told %d", rider, status)
		case isBroke(rider):
			declined++
			want[rider+" POST /bookings/of-today/cancel"] = 1
		default:
			want[rider+" POST /v1/charges"], want[rider+" POST /messages"] = 1, 1
		}
	}
	got, duplicates := map[string]int{}, 0
	for _, e := range append(w.dispatch.Effects(), w.cards.Effects()...) {
		what := riderOf(e) + " " + e.Method + " " + e.Path
		if got[what]++; got[what] > 1 {
			duplicates++
		}
	}
	missing := 0
	for what := range want {
		if got[what] == 0 {
			missing++
		}
	}
	rows, ended, err := w.count()
	if err != nil {
		return err
	}
	fmt.Fprintf(w.stdout, "\n%-32s%5d\n%-32s%5d\n%-32s%5d\n%-32s%5d\n%-32s%5d\n%-32s%5d\n",
		"rides", len(answers), "declined, and undone", declined, "effects at both providers", len(got),
		"duplicates", duplicates, "missing", missing, "kills", w.killed)
	switch {
	case duplicates > 0 || missing > 0 || len(got) != len(want):
		return fmt.Errorf("%d effects where there should be %d", len(got)+duplicates, len(want))
	case rows != len(answers) || ended != len(answers):
		return fmt.Errorf("%d rows and %d flows at their end, of %d", rows, ended, len(answers))
	}
	return nil
}

func riderOf(e providertest.Effect) string {
	var o order
	if json.Unmarshal(e.Body, &o) == nil {
		return o.Rider
	}
	form, _ := url.ParseQuery(string(e.Body)) // what it can't read is no rider's
	return form.Get("description")
}

// count counts the rows of the service's table, and the flows that have ended.
func (w *world) count() (rows, ended int, err error) {
	j, err := sqlite.Open(filepath.Join(w.dir, journalFile), sqlite.Options{})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	for f, err := range j.ListFlows(context.Background(), journal.FlowFilter{}) {
		if err != nil {
			return 0, 0, err
		}
		if f.State.Ended() {
			ended++
		}
	}
	tx, err := j.BeginSQL(context.Background())
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = tx.Rollback() }()
	return rows, ended, tx.QueryRow("SELECT count(*) FROM rides").Scan(&rows)
}
