package sqlite

import (
	"errors"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

// sweepFlows gives every waiting flow that is due later than the clock the FlowEventClock which
// goes with ev.
func (b *batch) sweepFlows(ev journal.Event) error {
	s, err := b.flowSQL()
	if err != nil {
		return err
	}
	handles, err := b.handles(s.DueAfter, ev.At.UnixMilli())
	if err != nil {
		return err
	}
	for _, handle := range handles {
		f, err := b.flow(handle)
		if errors.Is(err, format.ErrDamaged) {
			continue // a damaged flow is never used
		}
		if err == nil {
			_, err = b.nextFlow(f, journal.FlowEvent{Kind: journal.FlowEventClock, At: ev.At, Last: ev.Last})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
