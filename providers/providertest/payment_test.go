package providertest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// charge is the code of a program that the package's documentation tests.
func charge(ctx context.Context, client *http.Client, url, invoice string) (id string, err error) {
	for range 3 {
		if id, err = chargeOnce(ctx, client, url, invoice); err == nil {
			return id, nil
		}
	}
	return "", err
}

func chargeOnce(ctx context.Context, client *http.Client, url, invoice string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/charges", strings.NewReader("amount=1000&currency=eur"))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Idempotency-Key", invoice)
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var charged struct{ ID string }
	if err := json.NewDecoder(resp.Body).Decode(&charged); err != nil || resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d, %w", resp.StatusCode, err)
	}
	return charged.ID, nil
}

func TestAChargeWhoseAnswerIsLostIsMadeOnce(t *testing.T) {
	srv := providertest.NewServer(providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"id":"ch_1"}`) // the business, once for each charge
	}))
	defer srv.Close()
	srv.Script(providertest.DropAfter(), providertest.CutAt(5))

	id, err := charge(t.Context(), srv.Client(), srv.URL, "invoice-991")
	if err != nil || id != "ch_1" {
		t.Errorf("got %q, %v", id, err)
	}
	srv.AssertOneEffect(t, "invoice-991")

	srv.Advance(24 * time.Hour) // Stripe forgets the key: a late retry charges again
	charge(t.Context(), srv.Client(), srv.URL, "invoice-991")
	srv.AssertEffects(t, "invoice-991", 2)
}

func TestNoChargeIsMadeTwice(t *testing.T) {
	srv := providertest.NewServer(providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"id":"ch_1"}`)
	}))
	defer srv.Close()
	srv.Seed(1, providertest.Mix{DropBefore: 0.2, DropAfter: 0.2, Cut: 0.2})

	client, err := onceward.New(onceward.Config{
		Journal:    memory.New(),
		Providers:  []providers.Provider{srv.Provider()},
		HTTPClient: srv.Client(),
		Backoff:    backoff.Policy{Initial: time.Millisecond, MaxAttempts: 20},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Shutdown(t.Context())

	for n := range 20 {
		invoice := fmt.Sprintf("invoice-%d", n)
		ctx := onceward.WithOperation(t.Context(), invoice+"/charge")
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/v1/charges", strings.NewReader("description="+invoice))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.HTTPClient().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if n := len(srv.Effects()); n != 20 {
		t.Errorf("%d charges, not 20:\n%s", n, srv.Ledger())
	}
	srv.AssertNoDuplicates(t, func(e providertest.Effect) string { return string(e.Body) })
}

// The package's documentation shows the tests above.
func TestTheDocumentedTestsAreTheseOnes(t *testing.T) {
	documented, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	these, err := os.ReadFile("payment_test.go")
	require.NoError(t, err)
	var code strings.Builder
	for line := range strings.Lines(string(documented)) {
		if text, is := strings.CutPrefix(line, "//\t"); is {
			code.WriteString(text)
		} else if code.Len() > 0 && line == "//\n" {
			code.WriteString("\n")
		}
	}
	tests := strings.Split("\n"+strings.TrimSpace(code.String()), "\nfunc ")[1:]
	assert.Len(t, tests, 2)
	for _, test := range tests {
		assert.Contains(t, string(these), "func "+strings.TrimSpace(test))
	}
}
