package rowstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

// leaps are the clock's leaps. Before any decision, an operation without an answer learns all leaps since the write
// of the operation's record. A sweep tells all operations, since the indexes have times that a leap moves. After the
// sweep, only the leaps' number is kept.
type leaps struct {
	Number uint32 `json:"number"` // of the latest; 0: there was none
	Untold []leap `json:"untold"` // the latest ones, oldest first
}

// leap is a machine.EventClock, in milliseconds since 1970.
type leap struct {
	At    int64 `json:"at"`
	Last  int64 `json:"last"`
	Since int64 `json:"since"`
	Back  bool  `json:"back,omitempty"` // the clock was set back
}

func decodeLeaps(text string) (leaps, error) {
	if text == "" {
		return leaps{}, nil
	}
	var l leaps
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return l, fmt.Errorf("the leaps of the journal's clock: %w: %w", format.ErrDamaged, err)
	}
	return l, nil
}

func (l *leaps) encode() string {
	text, _ := json.Marshal(l) // numbers always have a text
	return string(text)
}

func (l *leaps) add(ev machine.Event) {
	l.Number++
	l.Untold = append(l.Untold, leap{ev.At.UnixMilli(), ev.Last.UnixMilli(), ev.Since.UnixMilli(), ev.SetBack})
}

// after returns the leaps after one. Earlier ones were told to all.
func (l *leaps) after(told uint32) []leap {
	if told >= l.Number {
		return nil
	}
	return l.Untold[max(0, len(l.Untold)-int(l.Number-told)):]
}

func (l leap) event() machine.Event {
	return machine.Event{Kind: machine.EventClock, At: time.UnixMilli(l.At), Last: time.UnixMilli(l.Last), Since: time.UnixMilli(l.Since), SetBack: l.Back}
}

// told returns the item after the leaps: the same item if the leaps change nothing.
func (l *leaps) told(it *item) *item {
	for _, leap := range l.after(it.told) {
		// EventClock has no error.
		if next, _, _ := machine.Next(it.op, false, leap.event()); store.Changes(it.op, next, machine.Ignored) {
			it = it.after(&next)
			it.told = l.Number
		}
	}
	return it
}

// tell applies the leaps to the entry's operation.
func (b *batch) tell(e *entry) {
	if e == nil || e.now == nil {
		return
	}
	if now := b.leaps.told(e.now); now != e.now {
		b.replace(e, now)
	}
}

// leapDue is a request's error if the caller's clock shows a leap for the journal's clock.
type leapDue struct{ at time.Time }

func (e *leapDue) Error() string { return "rowstore: the clock leaps" }

func isLeap(err error) bool {
	_, is := errors.AsType[*leapDue](err)
	return is
}

// leapSeen records the leap that a caller's clock shows, and waits for the sweep, but not for rows that others hold.
func (s *Store) leapSeen(ctx context.Context, at time.Time) error {
	number, err := s.leap(ctx, false, func(c *store.Clock) bool { return c.See(at) })
	if err != nil || number == 0 {
		return err
	}
	_ = s.swept(ctx, number, false) // the next one goes on
	return context.Cause(ctx)
}

// leap records a leap in a separate transaction, and returns the leap's number. 0 means that the leap is no longer
// due. The clock moves in the same transaction. A transaction that has decided by the former clock cannot commit
// afterwards.
func (s *Store) leap(ctx context.Context, resets bool, leaps func(*store.Clock) bool) (number uint32, err error) {
	for missed := 0; ; {
		number, err = s.tryLeap(ctx, resets, leaps)
		switch {
		case err == nil:
			return number, nil
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case errors.Is(err, ErrLocked):
		case errors.Is(err, ErrMissed) && missed < tries:
			missed++
		default:
			return 0, err
		}
	}
}

func (s *Store) tryLeap(ctx context.Context, resets bool, leaps func(*store.Clock) bool) (number uint32, err error) {
	tx, head, _, err := s.driver.Begin(ctx, Keys{Lock: WaitLock})
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	all, err := decodeLeaps(head.Leaps)
	if err != nil {
		return 0, err
	}
	s.clock.take(&head)
	is, due := s.clock.moved(leaps)
	if !due {
		return 0, nil
	}
	all.add(is.Sweep())
	head.Clock, head.Reset, head.Leaps = kept(&is), resets, all.encode()
	head.Number++
	if err := tx.Commit(s.ctx, head, nil); err != nil {
		return 0, err
	}
	s.clock.leapt(is, &head)
	return all.Number, nil
}
