package compare_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/compare"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// row is a charge as the bank lists it.
type row struct {
	ID, Amount, Currency, Reference string
	CreatedAt                       time.Time
}

// charges yields what a bank lists: page by page, until a page is empty.
func charges(page func(n int) ([]row, error)) iter.Seq2[compare.Object, error] {
	return func(yield func(compare.Object, error) bool) {
		for n := 1; ; n++ {
			rows, err := page(n)
			if err != nil {
				yield(compare.Object{}, err) // the list was not read to its end
				return
			}
			if len(rows) == 0 {
				return
			}
			for _, r := range rows {
				money, err := compare.ParseDecimal(r.Amount, r.Currency)
				o := compare.Object{ID: r.ID, Kind: "charge", Reference: r.Reference, At: r.CreatedAt, Money: money, State: providers.TookEffect}
				if !yield(o, err) {
					return
				}
			}
		}
	}
}

// One of two charges is not at the bank in the amount that was requested.
func Example() {
	ctx := context.Background()
	srv := providertest.NewServer(providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"ch_%s","object":"charge"}`, r.FormValue("description"))
	}))
	defer srv.Close()
	j := memory.New() // a program has one of journal/sqlite or journal/postgres
	client, err := onceward.New(onceward.Config{Journal: j, Providers: []providers.Provider{srv.Provider()}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Shutdown(ctx)
	from := time.Now()
	for _, invoice := range []string{"1", "2"} {
		req := httptest.NewRequest(http.MethodPost, srv.URL+"/v1/charges", strings.NewReader("amount=2000&currency=eur&description="+invoice))
		req.RequestURI = ""
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := client.HTTPClient().Do(req.WithContext(onceward.WithOperation(ctx, "invoice-"+invoice)))
		if err != nil {
			log.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}

	bank := charges(func(n int) ([]row, error) {
		if n > 1 {
			return nil, nil
		}
		return []row{
			{ID: "ch_1", Amount: "20.00", Currency: "EUR", CreatedAt: from},
			{ID: "ch_2", Amount: "5.00", Currency: "EUR", CreatedAt: from},
		}, nil
	})
	report, err := compare.Run(ctx, bank, compare.Options{
		Journals: []journal.Journal{j},
		Provider: srv.Provider(),
		Window:   compare.Window{From: from, To: time.Now()},
	})
	if err != nil {
		log.Fatal(err) // nothing was compared
	}
	fmt.Printf("%d of %d operations matched, %d amounts compared, OK: %t\n", report.Matched, report.Operations, report.AmountsCompared, report.OK())
	for _, f := range report.Findings {
		fmt.Println(f.Kind, f.Ref.ID, f.Object, f.Why)
	}
	// Output:
	// 2 of 2 operations matched, 2 amounts compared, OK: false
	// other_amount invoice-2 charge ch_2 the request says 20.00 EUR, and the provider moved 5.00 EUR
}
