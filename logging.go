package onceward

import (
	"log/slog"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
)

// logged is what logs tell of an operation: one group.
func logged(op *journal.Operation) slog.Attr {
	o := operationOf(op)
	group := []any{"id", o.title()}
	add := func(key, value string) {
		if value != "" {
			group = append(group, key, value)
		}
	}
	if o.URL != "" {
		add("request", o.Method+" "+secret.URL(core.Parsed(o.URL)))
	}
	add("scope", o.Scope)
	if kind, parent := o.parent(); parent != "" {
		add(kind, parent)
	}
	if o.InboundKey != "" {
		add("inbound_key", o.InboundKey.short())
	}
	add("provider", o.Provider)
	add("endpoint", o.Endpoint)
	return slog.Group("operation", append(group, "state", o.State.String(), "generation", o.Generation, "claim", o.Claim)...)
}
