package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// newBox starts a Stripe on this machine that makes payment intents and lists them. Package providertest handles the
// keys.
func newBox() *providertest.Server {
	box := providertest.NewServer(providers.Stripe(), &intents{})
	box.OwnLooks = true // the list is the intents' own
	return box
}

type intents struct {
	mu   sync.Mutex
	made []map[string]any
}

func (i *intents) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var answer any
	switch r.Method {
	case http.MethodPost:
		intent := map[string]any{
			"object":   "payment_intent",
			"id":       fmt.Sprintf("pi_%d", len(i.made)+1),
			"status":   "succeeded",
			"metadata": map[string]string{"invoice": r.FormValue("metadata[invoice]")},
		}
		i.made = append(i.made, intent)
		answer = intent
	default:
		answer = map[string]any{"object": "list", "data": i.made, "has_more": false}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}
