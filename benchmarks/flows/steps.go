package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// steps are the flow: each is one call, made of what the call before came to.
var steps = []string{"reserve", "charge", "book", "notify"}

// receipt is what the provider answers, and what a step returns.
type receipt struct {
	ID     string `json:"id"`
	Object string `json:"object"`
	Amount int    `json:"amount"`
}

// keyHeader is where the provider takes keys.
const keyHeader = "Idempotency-Key"

// stepKey is the key for engines that have to make a key themselves: the same whenever the step is made.
func stepKey(flow, step string) string { return flow + "." + step }

// call makes a step's call: a form with about half a KiB, as payment APIs take them. Without a key it leaves the key
// to the client.
func (p place) call(ctx context.Context, flow, step string, previous receipt, key string) (receipt, error) {
	form := url.Values{
		"flow": {flow}, "step": {step}, "previous": {previous.ID}, "amount": {"2000"}, "currency": {"usd"},
		"description": {strings.Repeat("x", 380)},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.provider+"/v1/"+step, strings.NewReader(form.Encode()))
	if err != nil {
		return receipt{}, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if key != "" {
		req.Header.Set(keyHeader, key)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return receipt{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return receipt{}, fmt.Errorf("status %d", resp.StatusCode)
	}
	var r receipt
	return r, json.NewDecoder(resp.Body).Decode(&r)
}

// noEngine makes the calls and forgets them: what the machine can do.
type noEngine struct{ place }

func openNone(_ context.Context, p place) (engine, error) { return noEngine{p}, nil }

func (e noEngine) run(ctx context.Context, flow string) (err error) {
	var r receipt
	for _, step := range steps {
		if r, err = e.call(ctx, flow, step, r, stepKey(flow, step)); err != nil {
			return err
		}
	}
	return nil
}

func (noEngine) close() error { return nil }
