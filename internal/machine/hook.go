package machine

import (
	"context"
)

// HookKeeper is a Journal that remembers that outcomes are for a hook of some program (onceward.Config.Outcomes). It is
// optional. This module's stores have it. Its methods are safe for concurrent use as the Journal's are.
//
// A client without such a hook then leaves outcomes undelivered (Event.HookElsewhere), for the program that has it.
type HookKeeper interface {
	Store

	// KeepHook records durably whether outcomes are for a hook.
	KeepHook(ctx context.Context, kept bool) error

	// HasHook reports what KeepHook recorded last, in any process. It is false at first.
	HasHook(ctx context.Context) (bool, error)
}
