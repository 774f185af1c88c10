package core

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/machine"
)

// Hook knows which program's hook gets the outcomes of the journal: this client's, another program's, or none. It may be used
// concurrently.
type Hook struct {
	keeper machine.HookKeeper // nil if the journal does not remember that there is a hook
	own    bool
	found  func() // is called once if there is another program's

	kept atomic.Bool // the journal has this client's
	mu   sync.Mutex
	read time.Time // when the journal was last read, by this process's own time
	has  bool
	said bool
}

// NewHook returns the Hook for a client with or without a hook. It calls found when the journal first turns out to have
// a hook that the client lacks.
func NewHook(j machine.Store, own bool, found func()) *Hook {
	keeper, _ := j.(machine.HookKeeper)
	return &Hook{keeper: keeper, own: own, found: found}
}

// Keep makes the journal remember the client's hook, if there is one.
func (h *Hook) Keep(ctx context.Context) error {
	if h.keeper == nil || !h.own || h.kept.Load() {
		return nil
	}
	has, err := h.keeper.HasHook(ctx)
	if err == nil && !has {
		err = h.keeper.KeepHook(ctx, true)
	}
	h.kept.Store(err == nil)
	return err
}

// hookEvery is how often the journal is read, since another program may begin to have a hook.
const hookEvery = 5 * time.Second

// Elsewhere reports whether this client has no hook and the journal's outcomes are for another program's. It is also
// true if the journal can't be read at first: an outcome that no hook gets after all counts as delivered after a later
// claim.
func (h *Hook) Elsewhere(ctx context.Context) bool {
	if h.keeper == nil || h.own {
		return false
	}
	elsewhere, first := h.elsewhere(ctx)
	if first {
		h.found()
	}
	return elsewhere
}

func (h *Hook) elsewhere(ctx context.Context) (is, first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.read.IsZero() && time.Since(h.read) < hookEvery {
		return h.has, false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace.Period)
	defer cancel()
	has, err := h.keeper.HasHook(ctx)
	if err != nil {
		has = h.has || h.read.IsZero()
	}
	first = err == nil && has && !h.said
	h.has, h.read, h.said = has, time.Now(), h.said || first
	return has, first
}
