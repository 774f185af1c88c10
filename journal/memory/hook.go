package memory

import (
	"context"

	"github.com/onceward/onceward/journal"
)

var _ journal.HookKeeper = (*Journal)(nil)

// KeepHook records whether outcomes are for a hook.
func (j *Journal) KeepHook(ctx context.Context, kept bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.openToWrite(ctx); err != nil {
		return err
	}
	j.hooked = kept
	return nil
}

// HasHook reports whether outcomes are for a hook.
func (j *Journal) HasHook(ctx context.Context) (bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.hooked, j.open(ctx)
}
