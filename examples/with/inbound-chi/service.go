package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/server"
)

// service takes orders. An order is a deposit, a charge and a receipt at the payment
// provider. Only the receipt has a separate name.
type service struct {
	calls    *http.Client // the client's
	provider string       // where the payment provider is
}

// newService makes every call below /orders repeatable: a repeat with the same Idempotency-Key makes the same calls
// with the same keys.
func newService(client *onceward.Client, provider string) (http.Handler, error) {
	inbound, err := server.Inbound(client, tenantOf, server.InboundOptions{})
	if err != nil {
		return nil, err
	}
	s := &service{calls: client.HTTPClient(), provider: provider}
	r := chi.NewRouter()
	r.Use(authenticate)
	r.With(inbound).Post("/orders/{order}", s.place)
	return r, nil
}

func (s *service) place(w http.ResponseWriter, r *http.Request) {
	order := chi.URLParam(r, "order")
	for _, step := range []struct {
		ctx          context.Context
		path, amount string
	}{
		{r.Context(), "/v1/charges", "500"},  // POST …/v1/charges
		{r.Context(), "/v1/charges", "1500"}, // POST …/v1/charges #2
		{onceward.WithOperation(r.Context(), "receipt"), "/v1/invoices", "2000"},
	} {
		if err := s.post(step.ctx, step.path, url.Values{"order": {order}, "amount": {step.amount}}); err != nil {
			refuse(w, err)
			return
		}
	}
	fmt.Fprintf(w, "%s is placed\n", order)
}

// post makes its request under the inbound request's context. Nothing more is needed.
func (s *service) post(ctx context.Context, path string, form url.Values) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.provider+path, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := s.calls.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	return nil
}

// refuse tells the caller whether another request with the same key helps.
func refuse(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, onceward.ErrKeyReused):
		http.Error(w, "the key was used for another order", http.StatusUnprocessableEntity)
	case errors.Is(err, onceward.ErrInFlight):
		http.Error(w, "the order is being placed", http.StatusConflict)
	case errors.Is(err, onceward.ErrPending):
		http.Error(w, "not yet; ask again with the same key", http.StatusServiceUnavailable)
	default:
		http.Error(w, "it failed", http.StatusBadGateway)
	}
}

type accountKey struct{}

// authenticate stands for real authentication: it believes the caller's header.
func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		account, _, ok := r.BasicAuth()
		if !ok {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), accountKey{}, account)))
	})
}

var errNoCaller = errors.New("the caller is not authenticated")

// tenantOf returns the tenant for a request's key: two accounts may choose the same key.
func tenantOf(r *http.Request) (string, error) {
	account, _ := r.Context().Value(accountKey{}).(string)
	if account == "" {
		return "", errNoCaller
	}
	return account, nil
}
