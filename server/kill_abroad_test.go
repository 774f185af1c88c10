//go:build unix

package server_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/server"
)

const (
	childProvider = "ONCEWARD_SERVER_PROVIDER" // has the child be an office, and is the URL of its provider
	childAsks     = "ONCEWARD_SERVER_ASKS"     // for this path
)

// office is a process of a service whose effects are at a provider. For a payment, it enqueues a charge. A delivery is a
// flow of two calls.
type office struct {
	journal *sqlite.Journal
	client  *onceward.Client
	handler *http.ServeMux
}

func openOffice(ctx context.Context, path, provider string, step func(string)) (*office, error) {
	j, err := openLedger(ctx, path)
	if err != nil {
		return nil, err
	}
	client, err := onceward.New(onceward.Config{
		Journal: j, Providers: []providers.Provider{providers.IETF(24*time.Hour, strings.TrimPrefix(provider, "http://"))},
		Secret: []byte("0123456789abcdef"), Logger: slog.New(slog.DiscardHandler),
		Outcomes: &onceward.Outcomes{HandleTx: func(ctx context.Context, tx journal.Tx, op onceward.Operation) error {
			step("settling")
			_, err := tx.Driver().(*sql.Tx).ExecContext(ctx, "INSERT INTO ledger VALUES (?)", op.ID)
			step("booked")
			return err
		}},
	})
	if err != nil {
		return nil, err
	}
	s, err := newServer(ctx, j, client)
	if err != nil {
		return nil, err
	}
	call := func(ctx context.Context, path, body string) (string, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, provider+path, strings.NewReader(fmt.Sprintf("{%q:1}", body)))
		if err != nil {
			return "", err
		}
		r.Header.Set("Content-Type", "application/json")
		got, err := client.HTTPClient().Do(r)
		if err != nil {
			return "", err
		}
		defer got.Body.Close()
		var made struct{ ID string }
		err = json.NewDecoder(got.Body).Decode(&made)
		return made.ID, err
	}
	deliver := flow.Define("deliver", 1, func(ctx context.Context, order string) (string, error) {
		var made []string
		for _, what := range []string{"charge", "parcel"} {
			id, err := flow.Step(ctx, what, func(ctx context.Context) (string, error) {
				id, err := call(ctx, "/"+what+"s", order)
				step(what + " made")
				return id, err
			})
			if err != nil {
				return "", err
			}
			made = append(made, id)
			step(what + " recorded")
		}
		return strings.Join(made, ", "), nil
	})
	flows, err := flow.New(client, flow.Config{Definitions: []flow.Definition{deliver}})
	if err != nil {
		return nil, err
	}
	read := func(r *http.Request) (string, error) {
		body, err := io.ReadAll(r.Body)
		return string(body), err
	}
	answer := func(w http.ResponseWriter, made string, err error) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, made)
		step("answering")
	}
	mux := http.NewServeMux()
	mux.Handle("POST /deliveries", s.Repeatable("deliveries.create", server.FlowHandler(deliver, flows, read, answer), server.Endpoint{}))
	mux.Handle("POST /payments", s.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := read(r)
		if err == nil {
			err = enqueue(r.Context(), client, provider, id)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "%s of %d", id, os.Getpid())
	}), server.Endpoint{}))
	return &office{j, client, mux}, nil
}

// childAbroad serves one request, and does what is due then.
func childAbroad(path string) error {
	step := stepByStep()
	o, err := openOffice(context.Background(), path, os.Getenv(childProvider), step)
	if err != nil {
		return err
	}
	ask(o.handler, "POST", os.Getenv(childAsks), "p-1", keyed("key-of-p-1"))
	step("answered")
	_, err = o.client.Resume(context.Background())
	step("delivered")
	return err
}

// killedAbroad kills an office after these steps of a request, and returns the next one with its provider. The provider
// numbers what it makes.
func killedAbroad(t *testing.T, asks string, steps []string) (*office, *providertest.Server) {
	t.Helper()
	var n atomic.Int64
	provider := providertest.NewServer(providers.IETF(24*time.Hour), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":"%s/%d"}`, r.URL.Path, n.Add(1))
	}))
	t.Cleanup(provider.Close)
	path := filepath.Join(t.TempDir(), "office.db")
	killAfter(t, path, steps, childProvider+"="+provider.URL, childAsks+"="+asks)
	o, err := openOffice(t.Context(), path, provider.URL, func(string) {})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, o.client.Shutdown(context.Background()))
		assert.NoError(t, o.journal.Close())
	})
	return o, provider
}

// A process is killed while it books the outcome of a charge that the provider has made. The charge is not made again, and
// the next process books it once. A client that asks again gets the answer of the killed process.
func TestKilledWhileAnOutcomeIsBooked(t *testing.T) {
	t.Parallel()
	steps := []string{"answered", "settling", "booked", "delivered"}
	for i, last := range steps {
		t.Run(last, func(t *testing.T) {
			t.Parallel()
			o, provider := killedAbroad(t, "/payments", steps[:i+1])
			b := &branch{journal: o.journal}
			made, booked := []int{0, 1, 1, 1}[i], [][]string{nil, nil, nil, {"p-1"}}[i]
			check := func() {
				t.Helper()
				assert.Len(t, provider.Effects(), made)
				payments, operations, receipts := b.ledger(t)
				assert.Equal(t, booked, payments)
				assert.Equal(t, []string{"p-1"}, operations)
				assert.Equal(t, []string{"p-1"}, receipts)
			}
			check()
			again := ask(o.handler, "POST", "/payments", "p-1", keyed("key-of-p-1"))
			assert.Equal(t, http.StatusCreated, again.Code)
			assert.Equal(t, "true", again.Header().Get("Idempotent-Replayed"))
			check()
			made, booked = 1, []string{"p-1"}
			for range 2 {
				_, err := o.client.Resume(t.Context())
				require.NoError(t, err)
				check()
			}
		})
	}
}

// A process is killed within a step of a flow, between two steps, or after the last. Another process gets the request again, and
// answers by the same flow. Each step has one effect.
func TestKilledInAFlow(t *testing.T) {
	t.Parallel()
	steps := []string{"charge made", "charge recorded", "parcel made", "parcel recorded", "answering", "answered"}
	for i, last := range steps {
		t.Run(last, func(t *testing.T) {
			t.Parallel()
			o, provider := killedAbroad(t, "/deliveries", steps[:i+1])
			for _, replayed := range []bool{last == "answered", true} {
				got := ask(o.handler, "POST", "/deliveries", "p-1", keyed("key-of-p-1"))
				assert.Equal(t, http.StatusCreated, got.Code)
				assert.Equal(t, "/charges/1, /parcels/2", got.Body.String())
				assert.Equal(t, replayed, got.Header().Get("Idempotent-Replayed") == "true")
			}
			var made []string
			for _, effect := range provider.Effects() {
				made = append(made, effect.Path)
			}
			assert.Equal(t, []string{"/charges", "/parcels"}, made)
			_, _, receipts := (&branch{journal: o.journal}).ledger(t)
			assert.Equal(t, []string{"p-1"}, receipts)
		})
	}
}
