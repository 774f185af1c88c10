// Package objects_test tests Client.Objects with package compare and a real journal. It also has a storm of kills over
// a service whose webhooks are lost, and the comparison after it.
package objects_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/compare"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// debits answers as GoCardless does: with the object in a separate member.
var debits = func() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/payments", providertest.ObjectsIn("payments", "PM"))
	mux.Handle("/refunds", providertest.ObjectsIn("refunds", "RF"))
	return mux
}()

// account is a provider in a box, and an application with an account there.
type account struct {
	*stripe // the application
	box     *providertest.Server
	name    string
}

func openBox(t *testing.T, table providers.Provider, business http.Handler) *account {
	t.Helper()
	box := providertest.NewUnstartedServerInMemory(table, business)
	box.StartTLS()
	t.Cleanup(box.Close)
	s := open(t, func(c *onceward.Config) {
		c.Providers, c.HTTPClient = []providers.Provider{box.Provider()}, box.Client()
	})
	return &account{s, box, table.Name}
}

// makes has the application make an operation if it has a name. Otherwise a person makes the object.
func (a *account) makes(name, path, body string) {
	a.t.Helper()
	client, ctx := a.box.Client(), a.t.Context()
	if name != "" {
		client, ctx = a.client.HTTPClient(), onceward.WithOperation(ctx, name)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.box.URL+path, strings.NewReader(body))
	require.NoError(a.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer sk_test_1")
	resp, err := client.Do(req)
	require.NoError(a.t, err)
	require.NoError(a.t, resp.Body.Close())
	require.Equal(a.t, http.StatusOK, resp.StatusCode)
}

func (a *account) compared(from time.Time, kinds ...string) (*compare.Report, error) {
	a.t.Helper()
	oncetest.Pass(2 * time.Hour)
	w := compare.Window{From: from.Add(-time.Hour), To: time.Now().Add(-time.Hour)}
	opts := compare.Options{Journals: []journal.Journal{a.journal}, Provider: a.box.Provider(), Window: w, Kinds: kinds}
	return compare.Run(a.t.Context(), a.client.Objects(a.t.Context(), a.name, onceward.ObjectList{Window: w, Kinds: kinds}), opts)
}

// The boxes' lists agree with the journal, page by page, and show what differs.
func TestObjectsOfTheBoxes(t *testing.T) {
	for name, row := range map[string]struct {
		table    providers.Provider
		business http.Handler
		kinds    []string
		made     [][2]string // operations' path and body
	}{
		"Increase": {providers.Increase(), providertest.Objects("transfer_"), []string{"ach_transfer", "card_push_transfer", "swift_transfer"}, [][2]string{
			{"/ach_transfers", `{"amount":-150,"currency":"USD"}`},
			{"/swift_transfers", `{"instructed_amount":20,"instructed_currency":"EUR"}`},
			{"/card_push_transfers", `{"presentment_amount":{"value":"7.00","currency":"USD"}}`},
		}},
		"GoCardless": {providers.GoCardless(), debits, []string{"payment", "refund"}, [][2]string{
			{"/payments", `{"payments":{"amount":10,"currency":"EUR","links":{"mandate":"MD1"}}}`},
			{"/refunds", `{"refunds":{"amount":7,"currency":"EUR","links":{"payment":"PM1"}}}`},
			{"/payments", `{"payments":{"amount":30,"currency":"EUR","links":{"mandate":"MD1"}}}`},
		}},
	} {
		oncetest.Virtual(t, name, func(t *testing.T) {
			a := openBox(t, row.table, row.business)
			a.box.PageSize = 1
			from := time.Now()
			for i, made := range row.made {
				a.makes(string(rune('a'+i)), made[0], made[1])
			}
			a.makes("", row.made[0][0], row.made[0][1])
			report, err := a.compared(from, row.kinds...)
			require.NoError(t, err)
			assert.True(t, report.OK(), "%+v", report)
			assert.Empty(t, report.Findings)
			assert.Equal(t, []int{3, 3, 3}, []int{report.Operations, report.Matched, report.AmountsCompared}, "%+v", report.NotCompared)
			assert.Equal(t, 1, report.OnlyThere[row.kinds[0]].Objects)

			require.True(t, a.box.Turn(a.box.Effects()[0].Object, providers.Reversed))
			report, err = a.compared(from, row.kinds...)
			require.NoError(t, err)
			require.Len(t, report.Findings, 1)
			assert.Equal(t, compare.ReversedThere, report.Findings[0].Kind)
		})
	}
}
