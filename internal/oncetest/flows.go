package oncetest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/severed"
)

// StartFlows starts a process that runs flows, as [Start] does. It uses the first flow.Config, if there is one.
func StartFlows(t *testing.T, via http.RoundTripper, cfg onceward.Config, flows ...flow.Config) *Process {
	t.Helper()
	p := usual(&cfg, via)
	cfg.Journal = &severed.Flows{Journal: p.Journal, Flows: p.Journal.Store.(machine.Flows)}
	p.begin(t, cfg)
	var of flow.Config
	if len(flows) > 0 {
		of = flows[0]
	}
	var err error
	p.Flows, err = flow.New(p.Client, of)
	require.NoError(t, err)
	return p
}

// Flow runs a function as a flow.
func (p *Process) Flow(ctx context.Context, id string, input any, do func(context.Context) error) error {
	return p.Flows.Do(ctx, id, input, do)
}

// Charge is a charge as the provider answers it.
type Charge struct {
	ID string `json:"id"`
}

// Post makes a charge with this description, which [Line.Descriptions] lists.
func (p *Process) Post(ctx context.Context, what string) (Charge, error) {
	var c Charge
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, ChargeURL, strings.NewReader("description="+what))
	if err != nil {
		return c, err
	}
	req.Header.Set("Content-Type", Form)
	resp, err := p.HTTP.Do(req)
	if err != nil {
		return c, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return c, fmt.Errorf("status %d", resp.StatusCode)
	}
	return c, json.NewDecoder(resp.Body).Decode(&c)
}

// Step makes one charge in a step of the same name.
func (p *Process) Step(ctx context.Context, name string) error {
	_, err := flow.Step(ctx, name, func(ctx context.Context) (Charge, error) { return p.Post(ctx, name) })
	return err
}

// Sequence returns a flow's function that makes charges one after another.
func (p *Process) Sequence(names ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, name := range names {
			if err := p.Step(ctx, name); err != nil {
				return err
			}
		}
		return nil
	}
}

// Distinct returns the set of the listed texts.
func Distinct(all []string) map[string]bool {
	set := map[string]bool{}
	for _, one := range all {
		set[one] = true
	}
	return set
}
