package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/leased"
)

// Adopting begins the reason during an adoption. The mark of the adoption follows, which shows whether another process has
// written something else there meanwhile.
const Adopting = "its adoption was begun, and is not over: "

// adoption counts the adoptions and confirmations that the process has ended. After each, the process drops everything
// read from the journal before.
type adoption struct {
	mu    sync.Mutex
	ended int
}

func (a *adoption) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended
}

// adopted ends the restored state in this process.
func (f *Fleet) adopted() {
	f.adoption.mu.Lock()
	defer f.adoption.mu.Unlock()
	f.adoption.ended++
	f.restored.Store(nil)
}

// Why returns why the journal counts as restored, or "".
func (f *Fleet) Why() string {
	if why := f.restored.Load(); why != nil {
		return *why
	}
	return ""
}

// Refusal returns journal.ErrRestored with the reason if the journal counts as restored, or else nil.
func (f *Fleet) Refusal() error {
	if why := f.Why(); why != "" {
		return fmt.Errorf("%w: %s; see Adopt and Confirm", journal.ErrRestored, why)
	}
	return nil
}

// takeOver takes over the journal's restored state. ended is the number of adoptions when it was read. If another one has
// ended since, the state is outdated.
func (f *Fleet) takeOver(ended int, is Journal) {
	f.adoption.mu.Lock()
	defer f.adoption.mu.Unlock()
	why := is.Why()
	switch {
	case ended != f.adoption.ended: // the next beat looks again
	case why != "":
		f.restored.Store(&why)
	default:
		f.restored.Store(nil)
	}
}

// LookAgain reads the journal's row, and takes over the restored state.
func (f *Fleet) LookAgain(ctx context.Context, c Conn) (Journal, error) {
	ended := f.adoption.count()
	is, err := c.Look(ctx)
	if err == nil && (is.Why() != "" || !f.opts.Existing) { // with Existing, no process writes down what this one saw
		f.takeOver(ended, is)
	}
	return is, err
}

// Answer reads the restored state, and answers a promotion that waits for this process.
func (f *Fleet) Answer(ctx context.Context, c Conn) error {
	is, err := f.LookAgain(ctx, c)
	if err == nil && is.Promoted != "" && is.Restored == "" {
		err = f.opts.Standbys.Answer(ctx, c, is)
	}
	return err
}

// IsRestored makes the journal count as restored, for all processes that have the journal open. An Adopt during the call
// is not undone: the evidence is of an earlier epoch.
func (f *Fleet) IsRestored(ctx context.Context, c Conn, epoch int64, why string) error {
	if f.restored.Load() == nil { // each connection that is made finds it out again
		f.opts.Log.Error("onceward: the journal was restored or copied, or the database has gone back: nothing is sent until it is adopted or confirmed", "why", why)
	}
	return f.Taken(func() (Journal, error) { return c.Mark(ctx, epoch, why) })
}

// Taken takes over the restored state that change leaves.
func (f *Fleet) Taken(change func() (Journal, error)) error {
	ended := f.adoption.count()
	is, err := change()
	if err == nil {
		f.takeOver(ended, is)
	}
	return err
}

// looksRestored is IsRestored for evidence that is seen from outside. With Options.Existing, only this process counts the
// journal as restored, and writes nothing.
func (f *Fleet) looksRestored(ctx context.Context, c Conn, epoch int64, why string) error {
	if f.opts.Existing {
		f.restored.Store(&why)
		return nil
	}
	return f.IsRestored(ctx, c, epoch, why)
}

// isOlder is looksRestored for a database that is behind the process's knowledge.
func (f *Fleet) isOlder(ctx context.Context, c Conn, epoch int64, why string) error {
	err := f.looksRestored(ctx, c, epoch, "the database has gone back: "+why)
	if err == nil && !f.opts.Existing { // it is written down
		f.Memory.Forget()
	}
	return err
}

// missing handles a missing row of the process. The rows of dead sessions stay for leased.KeepDead. So the database has
// lost the row of a living session, unless Adopt or Confirm ended all sessions. Then the journal counts as restored.
func (f *Fleet) missing(ctx context.Context, c Conn, m *leased.Member) error {
	is, err := c.Look(ctx)
	if err != nil {
		return err
	}
	if is.Epoch == m.Epoch && time.Since(time.Unix(0, m.Heard.Load())) < leased.KeepDead/2 {
		if err := f.IsRestored(ctx, c, is.Epoch, "the database has gone back: it has nothing of session "+m.ID+", which is alive"); err != nil {
			return err
		}
	}
	m.Gone.Store(true)
	return nil
}

// errAdopted means that an Adopt or a Confirm has ended a member meanwhile.
var errAdopted = errors.New("the journal was adopted meanwhile")

// goneBack is IsRestored for a lane of m that sees the database gone back. If an Adopt or a Confirm has ended m meanwhile,
// what the lane saw does not count, and goneBack returns errAdopted.
func (f *Fleet) goneBack(ctx context.Context, m *leased.Member, why string) error {
	c, err := f.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.HangUp()
	if err := f.IsRestored(ctx, c, m.Epoch, "the database has gone back: "+why); err != nil {
		return err
	}
	is, err := c.Look(ctx)
	if err != nil {
		return err
	}
	if is.Epoch != m.Epoch {
		f.restored.Store(nil) // or the next beat says otherwise
		m.Gone.Store(true)
		return errAdopted
	}
	f.Acknowledged.Forget() // this process has said what the database lacks, and may adopt it
	return f.Refusal()
}

// Lacking returns what this process saw acknowledged and the database does not have, or "" for nothing.
func (f *Fleet) Lacking(ctx context.Context, c Conn) (why string, err error) {
	m := f.member.Load()
	told := f.Acknowledged.Of(m)
	batches, latest, err := c.Commits(ctx, m.ID)
	if err != nil {
		return "", err
	}
	// No other process knows of sessions that joined and ended since the database's restored state.
	if joined := f.Memory.LastJoin(); !joined.IsZero() && latest.Before(joined) {
		return "it has nothing of a session that began at " + joined.UTC().Format(time.RFC3339Nano), nil
	}
	is := f.Acknowledged.Of(m) // a lane that got another row meanwhile has lost nothing
	for number, batch := range told {
		if batches[number] < batch && is[number] == batch {
			return fmt.Sprintf("lane %d of session %s has acknowledged batch %d", number, m.ID, batch), nil
		}
	}
	return "", nil
}
