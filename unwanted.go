package onceward

import (
	"context"

	"github.com/onceward/onceward/journal"
)

const unwanted, wanted = journal.Unwanted, journal.Wanted

// Unwanted says of an operation that nobody wants it any more: from then on nobody sends it, by its
// name or in the background, until Wanted lifts that. One of which nothing may have run is cancelled;
// one that may have is unknown, and goes on being looked for. If it turns out to have taken effect,
// OnSettled gets it with Operation.Unwanted, even where its caller has the answer; what is to be done
// about that is the owner's, and nothing is reversed by itself. (A flow that is still under way gets its
// own instead.) If it is proven absent, it is cancelled. The journal keeps one that is cancelled, whole
// and beyond Config.Keep, for as long as it is not wanted.
//
// The error is that of Resolve. One that another caller is sending just now is left alone
// (ErrInFlight); ask again once it has its outcome.
func (c *Client) Unwanted(ctx context.Context, ref Ref, how ResolveOptions) (Operation, error) {
	return c.want(ctx, ref, unwanted, how)
}

// Wanted lifts Unwanted. It sends nothing by itself: whoever asks for the operation by its
// name does.
func (c *Client) Wanted(ctx context.Context, ref Ref, how ResolveOptions) (Operation, error) {
	return c.want(ctx, ref, wanted, how)
}

func (c *Client) want(ctx context.Context, ref Ref, as Resolution, how ResolveOptions) (Operation, error) {
	op, err := c.Lookup(ctx, ref)
	if err != nil {
		return op, err
	}
	return c.Resolve(ctx, op.Seen, as, how)
}
