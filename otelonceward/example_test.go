package otelonceward_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/otelonceward"
	"github.com/onceward/onceward/providers"
)

// Spans and metrics go to the global providers.
func Example() {
	folder, err := os.MkdirTemp("", "onceward")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	tables := []providers.Provider{providers.Stripe(), providers.Raw(24*time.Hour, "ledger.example.com")}
	telemetry, err := otelonceward.New(otelonceward.WithProviders(tables...))
	if err != nil {
		log.Fatal(err)
	}
	j, err := sqlite.Open(filepath.Join(folder, "payments.db"), sqlite.Options{Committed: telemetry.Committed("payments"), Volatile: true})
	if err != nil {
		log.Fatal(err)
	}
	defer j.Close()
	client, err := onceward.New(onceward.Config{Journal: j, Providers: tables, Trace: telemetry.Trace()})
	if err != nil {
		log.Fatal(err)
	}
	observed, err := telemetry.Observe("payments", j)
	if err != nil {
		log.Fatal(err)
	}
	defer observed.Unregister()
	if _, err := telemetry.ObserveClient(client); err != nil {
		log.Fatal(err)
	}
	fmt.Println("client.HTTPClient() is traced and measured")
	// Output: client.HTTPClient() is traced and measured
}
