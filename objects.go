package onceward

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/onceward/onceward/compare"
	"github.com/onceward/onceward/internal/feed"
	"github.com/onceward/onceward/internal/reconcile"
)

// ObjectList says which objects Client.Objects lists. Window is required.
type ObjectList struct {
	// Window is the time for compare.Options.Window. Objects lists an hour more at both ends, as far as that is over.
	Window compare.Window

	// Scope is the scope whose credential Config.Authorize adds (CatchUpOf).
	Scope string

	// Account is the provider's id of the account, as in CatchUp. Give compare.Options.Account the same.
	Account string
}

const (
	objectsMore  = time.Hour        // at both ends of a window
	objectsAfter = 10 * time.Minute // for a provider that publishes less, or nothing
)

var errNoMoreObjects = errors.New("the caller wants no more")

// Objects yields the objects that moved money in an account, for compare.Run, as the table lists them
// (providers.Provider.Listing). The oldest is first. An object may come several times, once for each movement. A movement
// without an object of the table has its own id and type, such as "stripe_fee".
//
// An error is the last that it yields: the list was not read to its end, and shows nothing. Objects requests pages within
// the budget of Reconcile, and again after a 429 or 5xx. It asks for smaller pages and windows if a page or list is too
// long. It writes nothing to the journal. Objects is safe for concurrent use.
func (c *Client) Objects(ctx context.Context, provider string, of ObjectList) iter.Seq2[compare.Object, error] {
	return func(yield func(compare.Object, error) bool) {
		err := c.listObjects(ctx, provider, &of, func(o compare.Object) bool { return yield(o, nil) })
		if err != nil && !errors.Is(err, errNoMoreObjects) {
			yield(compare.Object{}, fmt.Errorf("onceward: objects: %w", err))
		}
	}
}

// listObjects calls each for every object, until each returns false.
func (c *Client) listObjects(ctx context.Context, provider string, of *ObjectList, each func(compare.Object) bool) error {
	p, w, now := c.core.Called(provider), of.Window, c.core.Now()
	switch {
	case c.cfg.Reconcile == nil:
		return errors.New("Config.Reconcile is nil, so nothing is read from a provider: set it")
	case p == nil:
		return fmt.Errorf("no provider in Config.Providers is called %q", provider)
	case p.Listing.List.Path == "":
		return fmt.Errorf("the table of %q has no list of objects (providers.Provider.Listing): write an iterator over the provider's list", provider)
	case w.From.IsZero() || !w.From.Before(w.To):
		return errors.New("ObjectList.Window is empty, or ends before it begins: set From and To")
	}
	plan, objects, err := feed.CompileListing(p)
	if err != nil {
		return err
	}
	settled := now.Add(-max(p.Listing.List.VisibleAfter, objectsAfter)).Truncate(time.Second)
	if w.To.After(settled) {
		return fmt.Errorf("ObjectList.Window ends after %s, and the list may be behind: let it end earlier", settled.UTC().Format(time.RFC3339))
	}
	until := w.To.Add(objectsMore)
	if until.After(settled) {
		until = settled
	}
	if err := c.core.Lifecycle.Enter(); err != nil {
		return err
	}
	defer c.core.Lifecycle.Leave()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	source := reconcile.Source{From: w.From.Add(-objectsMore), Scope: of.Scope, Account: of.Account, Deliver: func(_ context.Context, e *feed.Item, _ bool) error {
		o, err := objectOf(objects, e)
		if err == nil && !each(o) {
			err = errNoMoreObjects
		}
		if err != nil {
			cancel(err)
		}
		return err
	}}
	reached, err := c.finder.ReadList(ctx, plan, p, &source, until)
	if err == nil && reached.Before(w.To) {
		err = fmt.Errorf("by the provider's clock the list is certain until %s only: let ObjectList.Window end earlier", reached.UTC().Format(time.RFC3339))
	}
	return err
}

// objectOf returns the object of an entry, as package compare takes it.
func objectOf(objects *feed.Objects, entry *feed.Item) (compare.Object, error) {
	said, err := objects.Read(entry)
	if err != nil {
		return compare.Object{}, err
	}
	o := compare.Object{ID: said.ID, Kind: said.Kind, Reference: said.Reference, At: entry.At, State: said.State}
	if said.Amount != "" && said.Currency != "" {
		if o.Money, err = compare.ParseMinor(said.Amount, said.Currency); err != nil {
			return compare.Object{}, fmt.Errorf("the amount of a %s: %w", said.Kind, err)
		}
	}
	return o, nil
}
