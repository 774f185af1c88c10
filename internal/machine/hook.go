package machine

import (
	"context"
)

// HookKeeper is a Journal that remembers whether outcomes are for some program's hook (onceward.Config.Outcomes).
// HookKeeper is optional, and this module's stores implement it. The methods are safe for concurrent use like the
// Journal's.
//
// A client without a hook then leaves outcomes undelivered (Event.HookElsewhere), for the program with the hook.
type HookKeeper interface {
	Store

	// KeepHook records durably whether outcomes are for a hook.
	KeepHook(ctx context.Context, kept bool) error

	// HasHook reports what KeepHook recorded last, in any process. It is false at first.
	HasHook(ctx context.Context) (bool, error)
}
