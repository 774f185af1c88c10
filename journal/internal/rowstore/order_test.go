package rowstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore/faultdb"
)

// passes lets time pass, and the journal believe it.
func (p *process) passes(d time.Duration) {
	for _, d := range []time.Duration{d, machine.Confirmation} {
		time.Sleep(d)
		p.apply(machine.Event{Kind: machine.EventClock, At: time.Now(), Ref: ref("none")})
	}
}

func TestAReapSeesTheDeliveriesBeforeIt(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		op := p.complete1("a")
		p.passes(60 * 24 * time.Hour)
		p.decide(p.of(machine.EventDeliver, op), machine.Recorded)
		reaped, err := p.j.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: time.Now()}, 10)
		require.NoError(t, err)
		assert.Equal(t, 1, reaped)
	})
}

func TestAReapForgetsEventsWhetherOrNotItReaches(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		heard := machine.Heard{Provider: "ledger", ID: "evt_1"}
		ev := p.proof(p.unknown("a"), "charge ch_1")
		hears := func() bool {
			_, first, err := p.j.RecordEvent(t.Context(), heard, []machine.Event{ev})
			require.NoError(t, err)
			return first
		}
		assert.True(t, hears())
		assert.False(t, hears())
		p.passes(2 * machine.EvidenceKeep)
		_, err := p.j.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: time.Now()}, 0)
		require.NoError(t, err)
		assert.True(t, hears())
	})
}

// The clock of a refused event shows nothing.
func TestARefusedEventThatIsHeardMovesNoClock(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		ev := p.proof(p.unknown("a"), "charge ch_1")
		last := p.apply(p.begin("b")).Last
		ev.At, ev.Evidence = ev.At.Add(time.Hour), nil
		_, _, err := p.j.RecordEvent(t.Context(), machine.Heard{Provider: "ledger", ID: "evt_1"}, []machine.Event{ev})
		require.ErrorIs(t, err, journal.ErrInvalidEvent)
		assert.Equal(t, last, p.apply(p.begin("c")).Last)
	})
}

// A clock ran ahead while the operation was sent, and its answer was cut off. A repeat in its window would come after
// the provider has forgotten the key. The look-up before it closes the window, also once that time has passed.
func TestALookUpClosesTheWindowOfAMissingAnswer(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		now := time.Now()
		begin := p.begin("cut")
		begin.At = now.Add(20 * time.Hour)
		complete := p.complete(p.decide(begin, machine.Execute))
		complete.At, complete.Answer.Cut = begin.At, true
		p.decide(complete, machine.Recorded)
		require.NoError(t, p.j.ResetClock(t.Context(), now))
		look := p.of(machine.EventLook, p.get("cut"))
		look.At, look.Asked = begin.At.Add(time.Hour), true
		look.Due = look.At.Add(time.Minute)
		assert.True(t, p.decide(look, machine.Look).WindowClosed)
		assert.True(t, p.get("cut").WindowClosed)
	})
}
