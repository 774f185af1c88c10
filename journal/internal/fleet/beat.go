package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/leased"
)

// run renews the sessions, and watches over the others', until the Fleet is closed. It begins with that connection.
func (f *Fleet) run(c Conn) {
	f.opts.Pace.Run(f.background, func() error {
		err := f.beat(&c)
		if err != nil && c != nil && f.db.FateOf(err).Outage {
			c.HangUp()
			c = nil
		}
		return err
	}, func(err error) {
		f.opts.Log.Warn("onceward: the journal's sessions could not be renewed; they are lost if that continues", "after", f.opts.Pace.Lost, "error", f.db.Explain("renew the sessions", err))
	})
	if c != nil {
		c.HangUp()
	}
}

func (f *Fleet) beat(conn *Conn) error {
	ctx, cancel := context.WithTimeout(f.background, f.opts.Pace.Lost/2)
	defer cancel()
	if *conn == nil || (*conn).Broken() {
		c, err := f.Dial(ctx)
		if err != nil {
			return err
		}
		*conn = c
	}
	c := *conn
	if _, err := f.current(ctx); err != nil {
		return err
	}
	is, err := f.look(ctx, c)
	if err != nil {
		return err
	}
	if err := f.renew(ctx, c); err != nil {
		return err
	}
	if is.Promoted != "" {
		if err := f.Answer(ctx, c); err != nil {
			return err
		}
	}
	if f.opts.Existing {
		return nil
	}
	if err := f.testify(ctx, c); err != nil {
		return err
	}
	return f.watch(ctx, c)
}

// look reads the journal's row. It returns an error if a migration to a later release excludes this release. Then the
// process renews no session, and closes each writing connection before its next use.
func (f *Fleet) look(ctx context.Context, c Conn) (is Journal, err error) {
	if f.opts.Standbys != nil {
		err = f.opts.Standbys.Recheck(ctx, c)
	}
	sent := time.Now()
	if err == nil {
		is, err = f.LookAgain(ctx, c)
	}
	switch {
	case err == nil:
		f.outdated.Store(false)
		f.Time.HeardAt(sent, is.Now)
		f.SetSealed(is.Sealed)
	case errors.Is(err, journal.ErrVersion):
		f.outdated.Store(true)
	}
	return is, err
}

// renew renews all this process's sessions. Missing sessions are lost.
func (f *Fleet) renew(ctx context.Context, c Conn) error {
	m, own := f.member.Load(), f.Sessions.Living()
	ids := append(slices.Collect(maps.Keys(own)), m.ID)
	slices.Sort(ids)
	before, sent := f.Memory.BeatsOf(m.ID), time.Now()
	heard, err := c.Renew(ctx, m.Epoch, ids)
	if err != nil {
		return err
	}
	mine, lives := heard[m.ID]
	if mine.Beats > 0 && mine.Beats <= before {
		return f.isOlder(ctx, c, m.Epoch, fmt.Sprintf("session %s is at beat %d, after %d", m.ID, mine.Beats, before))
	}
	f.Memory.Beat(m.ID, mine.Beats)
	f.Sessions.Heard(sent, own, slices.Collect(maps.Keys(heard)))
	if lives {
		m.Heard.Store(time.Now().UnixNano())
		return nil
	}
	rows, err := c.Leases(ctx, m.Epoch, []string{m.ID})
	if err != nil {
		return err
	}
	if _, there := rows[m.ID]; !there {
		return f.missing(ctx, c, m)
	}
	m.Gone.Store(true)
	return nil
}

// watch buries the sessions of other processes that are not renewed any more.
func (f *Fleet) watch(ctx context.Context, c Conn) error {
	all, living, joined, err := c.Sessions(ctx)
	if err != nil {
		return err
	}
	if !joined.IsZero() {
		f.Memory.JoinedAt(joined)
	}
	found := f.observer.Look(f.opts.Pace, all)
	f.Sessions.Rank(living)
	if len(found) == 0 {
		return f.upkeep(ctx)
	}
	var dead []string
	beats := make(map[string]int64)
	for _, b := range found {
		dead, beats[b.ID] = append(dead, b.ID), b.Beats
	}
	if s := f.opts.Standbys; s != nil {
		if promoted, err := s.Silent(ctx, c, dead); err != nil || promoted {
			return err
		}
	}
	f.opts.Log.Warn("onceward: sessions are considered dead, and other processes take over their operations", "sessions", len(dead))
	return f.Bury(ctx, dead, beats)
}

// upkeep removes, once an hour, rows of dead sessions that no process needs any more.
func (f *Fleet) upkeep(ctx context.Context) error {
	now := time.Now()
	if now.Before(f.upkeepDue) {
		return nil
	}
	f.upkeepDue = now.Add(time.Hour)
	return f.transact(ctx, "tidy up", func(ctx context.Context, t Tx) error { return t.Tidy(ctx) })
}

// refused returns why the guard refused a transaction of m that needs these sessions. Nil means that another try is due.
func (f *Fleet) refused(ctx context.Context, c Conn, m *leased.Member, needs []string) error {
	rows, err := c.Leases(ctx, m.Epoch, append([]string{m.ID}, needs...))
	if err != nil {
		return err
	}
	mine, there := rows[m.ID]
	switch {
	case !there:
		return f.missing(ctx, c, m)
	case mine.Ended:
		m.Gone.Store(true)
		if len(needs) > 0 {
			return journal.ErrSessionLost
		}
		return nil
	}
	for _, id := range needs {
		is, there := rows[id]
		if s, err := f.Sessions.Mine(id); err != nil || !there || is.Ended {
			if s != nil {
				s.Lose()
			}
			return journal.ErrSessionLost
		}
		if is.Over { // it was not renewed for a while, and was not buried
			if err := f.renew(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}
