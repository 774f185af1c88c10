package flow

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Config configures a Runner. The zero Config works.
type Config struct {
	// Definitions are the flows' functions for Resume and Run: see Define. Runner.Register adds more.
	Definitions []Definition

	// Backoff sets the delay before a failed flow runs again. After MaxAttempts failures in a row, the flow is set aside.
	// Default: up to 1 second at first, up to 10 minutes later, and 10 failures.
	Backoff backoff.Policy

	Trace *Trace // nil: none
}

// New makes the client's Runner. A client has one. From then on the client's Resume and Run also run interrupted and due
// flows with registered functions. The journal has to keep flows, as this module's journals do. The error says what is
// wrong and how to mend it.
func New(client *onceward.Client, cfg Config) (*Runner, error) {
	r := &Runner{
		client: client, core: core.Of(client), backoff: withDefaults(cfg.Backoff), wakes: make(chan struct{}, 1),
		functions: map[journal.FlowFunction]*function{}, hands: hands{asked: map[onceward.Ref]int{}, run: map[onceward.Ref]int{}},
	}
	if err := r.backoff.Validate(); err != nil {
		return nil, fmt.Errorf("onceward: flow.Config.Backoff: %w", err)
	}
	if cfg.Trace != nil {
		r.trace = *cfg.Trace
	}
	var ok bool
	if r.store, ok = r.core.Journal.(machine.Flows); !ok {
		return nil, errors.New("onceward: the client's journal keeps no flows")
	}
	if err := r.Register(cfg.Definitions...); err != nil {
		return nil, err
	}
	if err := r.core.Flows.Attach(&background{r}); err != nil {
		return nil, fmt.Errorf("onceward: %w", err)
	}
	return r, nil
}

// withDefaults fills in Config.Backoff's defaults.
func withDefaults(p backoff.Policy) backoff.Policy {
	p.Initial = cmp.Or(p.Initial, time.Second)
	p.Max = cmp.Or(p.Max, max(10*time.Minute, p.Initial))
	p.MaxAttempts = cmp.Or(p.MaxAttempts, 10)
	return p
}
