package onceward

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/compare"
	"github.com/onceward/onceward/internal/feed"
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/providers"
)

// ObjectList says which objects Client.Objects lists. Window is required.
type ObjectList struct {
	// Window is the time for compare.Options.Window. Objects lists an hour more at both ends, as far as that is over.
	Window compare.Window

	// Scope is the scope whose credential Config.Authorize adds (CatchUpOf).
	Scope string

	// Account is the provider's id of the account, as in CatchUp. Give compare.Options.Account the same.
	Account string

	// Kinds are the kinds of object that your program creates, in the words of the table (providers.Endpoint.Object). Objects
	// reads only the lists that have one of the kinds. Give compare.Options.Kinds the same. Empty means every list.
	Kinds []string
}

const (
	objectsMore  = time.Hour        // at both ends of a window
	objectsAfter = 10 * time.Minute // for a provider that publishes less, or nothing
)

var errNoMoreObjects = errors.New("the caller wants no more")

// Objects yields the objects that moved money in an account, for compare.Run, by the table's listings
// (providers.Provider.Listings). Of each list, the oldest is first. An object may come several times, once for each
// movement. A movement without an object of the table has its own id and type, such as "stripe_fee".
//
// An error comes last: the list was not read to the end, and shows nothing. Objects requests pages within the budget of
// Reconcile, and again after a 429 or 5xx. It asks for smaller pages and windows if a page or list is too long. It
// writes nothing to the journal. Objects is safe for concurrent use.
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
	p, w := c.core.Called(provider), of.Window
	switch {
	case c.cfg.Reconcile == nil:
		return errors.New("Config.Reconcile is nil, so nothing is read from a provider: set it")
	case p == nil:
		return fmt.Errorf("no provider in Config.Providers is called %q", provider)
	case len(p.Listings) == 0:
		return fmt.Errorf("the table of %q has no list of objects (providers.Provider.Listings): write an iterator over the provider's list", provider)
	case w.From.IsZero() || !w.From.Before(w.To):
		return errors.New("ObjectList.Window is empty, or ends before it begins: set From and To")
	}
	lists, err := listingsOf(p, of.Kinds)
	if err != nil {
		return err
	}
	if err := c.core.Lifecycle.Enter(); err != nil {
		return err
	}
	defer c.core.Lifecycle.Leave()
	for _, l := range lists {
		if err := c.readListing(ctx, p, l, of, each); err != nil {
			return err
		}
	}
	return nil
}

// listingsOf returns the lists that have one of the kinds.
func listingsOf(p *providers.Provider, kinds []string) (lists []*providers.Listing, err error) {
	known := map[string]bool{}
	for i := range p.Listings {
		l := &p.Listings[i]
		wanted := len(kinds) == 0
		for _, o := range l.Objects {
			known[o.Kind] = true
			wanted = wanted || slices.Contains(kinds, o.Kind)
		}
		if wanted {
			lists = append(lists, l)
		}
	}
	for _, kind := range kinds {
		if !known[kind] {
			return nil, fmt.Errorf("ObjectList.Kinds: no list of %q has a %q: the lists have %s", p.Name, kind, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	return lists, nil
}

// readListing calls each for every object of one list.
func (c *Client) readListing(ctx context.Context, p *providers.Provider, l *providers.Listing, of *ObjectList, each func(compare.Object) bool) error {
	plan, objects, err := feed.CompileListing(p, l)
	if err != nil {
		return err
	}
	w := of.Window
	settled := c.core.Now().Add(-max(l.List.VisibleAfter, objectsAfter)).Truncate(time.Second)
	if w.To.After(settled) {
		return fmt.Errorf("ObjectList.Window ends after %s, and the list may be behind: let it end earlier", settled.UTC().Format(time.RFC3339))
	}
	until := w.To.Add(objectsMore)
	if until.After(settled) {
		until = settled
	}
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
	if entry.Unread != "" {
		return compare.Object{}, errors.New(entry.Unread)
	}
	said, err := objects.Read(entry)
	if err != nil {
		return compare.Object{}, err
	}
	o := compare.Object{ID: said.ID, Kind: said.Kind, Key: said.Key, Reference: said.Reference, At: entry.At, State: said.State}
	if said.Amount != "" && said.Currency != "" {
		parse := compare.ParseMinor
		if said.Decimal {
			parse = compare.ParseDecimal
		}
		if o.Money, err = parse(said.Amount, said.Currency); err != nil && !errors.Is(err, compare.ErrDecimals) {
			return compare.Object{}, fmt.Errorf("the amount of a %s: %w", said.Kind, err)
		}
	}
	return o, nil
}
