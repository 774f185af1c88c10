package postgres

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

var _ journal.Reconciler = (*laneJournal)(nil)

// dueLooks locks unknown operations whose look-up is due, those due longest coming first. The wake_at of operations
// that need attention is 0.
const dueLooks = `SELECT handle FROM {{schema}}.operations o WHERE o.state = 4 AND o.wake_at > 0 AND o.wake_at <= $2` + ofThese +
	` AND o.handle <> ALL($4) ORDER BY o.wake_at, o.handle LIMIT $3 FOR UPDATE OF o SKIP LOCKED`

// Looks applies ev, of kind EventLook, in one commit to at most limit unknown operations whose look-up is due, those
// due longest first, with at most 16 MB of bodies. It skips operations that another transaction is changing, and
// unreadable ones. If nothing else is due, it returns the error of the unreadable one.
func (j *laneJournal) Looks(ctx context.Context, ev journal.Event, limit int) ([]journal.Result, error) {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := store.CheckLooks(ev); err != nil {
		return nil, err
	}
	var results []journal.Result
	var damaged error
	err = j.tx(ctx, ask{doing: "look", at: ev.At, decides: true, indices: true}, func(t *tx) error {
		results, damaged, err = t.looks(ev, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(results) == 0 {
		return nil, damaged
	}
	return results, nil
}

func (t *tx) looks(ev journal.Event, limit int) (results []journal.Result, damaged, err error) {
	t.puttingOff = true
	seen := []int64{}
	for room := true; room && len(results) < limit; { // in the place of those that are damaged, there may be others
		handles, err := t.numbers(dueLooks, providers(ev.From), ev.At.UnixMilli(), limit-len(results), seen)
		if err != nil {
			return nil, nil, err
		}
		rows, err := t.whole(handles)
		if err != nil {
			return nil, nil, err
		}
		room = len(handles) > 0 && len(rows) == len(handles)
		seen = append(seen, handles...)
		for i, r := range rows {
			if r.err != nil {
				damaged = cmp.Or(damaged, fmt.Errorf("operation %d is passed over: %w", handles[i], r.err))
				continue
			}
			result, _, err := t.next(r.row, ev)
			if err != nil {
				return nil, nil, err
			}
			results = append(results, result)
		}
	}
	return results, damaged, t.flush()
}

// Hear records in one commit that an event was heard, and its results. A process that hears the same event at the same
// time waits, and then gets first as false.
func (j *laneJournal) Hear(ctx context.Context, heard journal.Heard, evs []journal.Event) (results []journal.Result, first bool, err error) {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return nil, false, err
	}
	defer leave()
	if err := store.CheckHear(heard, evs); err != nil {
		return nil, false, err
	}
	for _, ev := range evs {
		if err := j.checkTime(ev.At); err != nil {
			return nil, false, err
		}
	}
	err = j.tx(ctx, ask{doing: "hear", decides: true}, func(t *tx) error {
		results, first, err = t.hear(heard, evs)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return results, first, nil
}

func (t *tx) hear(heard journal.Heard, evs []journal.Event) (results []journal.Result, first bool, err error) {
	digest := heardDigest(heard)
	var before bool
	if err := t.one("SELECT EXISTS (SELECT 1 FROM {{schema}}.heard WHERE digest = $1)", digest).Scan(&before); err != nil || before || len(evs) == 0 {
		return nil, !before, err
	}
	// Invalid events are refused before anything is written or any clock is seen.
	for _, ev := range evs {
		r, err := t.find(&ev)
		if err != nil {
			return nil, false, err
		}
		if r == nil {
			r = new(record.Row)
		}
		if _, _, refused := journal.Next(r.Op, false, ev); refused != nil {
			return nil, false, refused
		}
	}
	for i, ev := range evs {
		t.at = ev.At
		if err := t.see(); err != nil {
			return nil, false, err
		}
		if i == 0 { // another process that hears it at the same time waits here
			n, err := t.do("INSERT INTO {{schema}}.heard (digest, at) VALUES ($1, $2) ON CONFLICT DO NOTHING", digest, t.clock.Last.UnixMilli())
			if err != nil || n == 0 {
				return nil, false, err
			}
		}
		r, err := t.find(&ev)
		if err != nil {
			return nil, false, err
		}
		result, _, err := t.next(r, ev)
		if err != nil {
			return nil, false, err
		}
		results = append(results, result)
	}
	return results, true, nil
}

// heardDigest returns the hash that stands for an event. Two events with one hash would count as the same. SHA-256
// rules that out.
func heardDigest(heard journal.Heard) []byte {
	b := make([]byte, 0, 128)
	for _, part := range [...]string{heard.Provider, heard.Account, heard.ID} {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// heardAtOnce is how many events are forgotten in one commit.
const heardAtOnce = 1000

// forgetHeard forgets events that were heard so long ago, some in a commit.
func (j *laneJournal) forgetHeard(ctx context.Context, before time.Time) error {
	for {
		var n int64
		err := j.tx(ctx, ask{doing: "forget events that were heard", decides: true}, func(t *tx) (err error) {
			n, err = t.do(`DELETE FROM {{schema}}.heard WHERE digest IN (
				SELECT digest FROM {{schema}}.heard WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)`, before.UnixMilli(), heardAtOnce)
			return err
		})
		if err != nil || n < heardAtOnce {
			return err
		}
	}
}
