package postgres

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/postgres/internal/apptx"
	"github.com/onceward/onceward/journal/postgres/internal/fleet"
)

// pace is how leases are renewed, and how long others may take.
type pace struct {
	leased.Pace
	testify time.Duration // between two reports to the witness
	close   time.Duration // how long Close waits for the server: once for commits under way, and once to end the sessions
	// The time of a handler of DeliverTx; the rest of commitTime is for its COMMIT.
	handler time.Duration
}

var usualPace = pace{Pace: leased.UsualPace, testify: 10 * time.Second, close: 5 * time.Second, handler: 25 * time.Second}

// fleetOptions says what the journal's leases go by.
func (j *laneJournal) fleetOptions() fleet.Options {
	s := j.schema
	return fleet.Options{
		Schema: s, Dialer: j.dialer, Log: j.log, Pace: j.pace.Pace, Testify: j.pace.testify, Background: j.background,
		Deployment: j.opts.Deployment, Pooled: j.opts.Pooled, ReadOnly: j.opts.ReadOnly, Existing: j.opts.Existing,
		Durable: j.opts.Durability == ServersDisk && !j.opts.Unsafe, Promotable: j.opts.Failover == LosesNothing, MayLose: j.opts.Failover == MayLose,
		Witness: j.opts.Witness,
		Store: fleet.Store{
			Operations: "operations", Handles: "handles", Given: "last_value",
			Tables: []string{"operations", "requests", "answers", "leases", "marks", "heard", "flows", "flow_steps"},
			Cut: []string{
				"SELECT pg_catalog.setval('" + s + ".handles'::pg_catalog.regclass, greatest((SELECT epoch << 40 FROM " + s + ".journal), " +
					"(SELECT coalesce(max(handle), 0) FROM " + s + ".operations), (SELECT last_value FROM " + s + ".handles)))",
				// A journal of an earlier schema has no receipts.
				"SELECT pg_catalog.setval(q, (SELECT epoch << 40 FROM " + s + ".journal)) FROM pg_catalog.to_regclass('" + s + ".receipts_handle_seq') q WHERE q IS NOT NULL",
			},
			Fold: strings.ReplaceAll("WITH gone AS (DELETE FROM {{schema}}.lanes WHERE {{gone}} "+
				"RETURNING last_at, least_margin), most AS (SELECT max(last_at) AS last_at, min(nullif(least_margin, 0)) AS least_margin FROM gone) "+
				"UPDATE {{schema}}.journal j SET last_at = greatest(j.last_at, most.last_at), "+
				"least_margin = CASE WHEN j.least_margin = 0 THEN coalesce(most.least_margin, 0) ELSE least(j.least_margin, most.least_margin) END FROM most WHERE most.last_at IS NOT NULL", "{{schema}}", s),
			Version: checkVersion, NoJournal: errNoJournal, Explain: explain,
			Lacks: func(privilege string) error { return lacksGrant("open", privilege) },
			Transact: func(ctx context.Context, doing string, lanes []any, f func(context.Context, apptx.Runner) error) error {
				return j.tx(ctx, ask{doing: doing, lanes: lanes}, func(t *tx) error { return f(t.ctx, t.conn) })
			},
			ReadClock: func(ctx context.Context, conn *pgx.Conn) error {
				if len(j.clockJob) > 0 { // the heart does not wait for a transaction that sweeps, and the next beat sees what came of it
					return nil
				}
				return j.readClock(ctx, conn)
			},
		},
	}
}

// session is the session of a caller of Join.
type session struct {
	*leased.Session
	j *laneJournal
}

// End ends the session: other processes may claim its operations at once. If the database can't be reached the session
// is dead all the same, but others learn of it only once it has expired.
func (s *session) End(ctx context.Context) error {
	if !s.Session.End() {
		return nil
	}
	leave, err := s.j.enter(context.WithoutCancel(ctx))
	if err != nil {
		return nil // Close has ended it
	}
	defer leave()
	_ = s.j.left.WaitForAll(s.j.background)
	s.Remove()
	return s.j.fleet.Bury(ctx, []string{s.ID()}, nil)
}

// Join starts a session. It is renewed in the background until it is ended or the Journal is closed.
func (j *laneJournal) Join(ctx context.Context) (journal.Session, error) {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if j.opts.Existing {
		return nil, errNoWorker
	}
	s := j.fleet.Sessions.New(fleet.NewID())
	if err := j.tx(ctx, ask{doing: "join", decides: true}, func(t *tx) error { return j.fleet.Join(t.ctx, t.conn, s) }); err != nil {
		return nil, err
	}
	j.fleet.Sessions.Add(s)
	return &session{s, j}, nil
}

// errNoWorker is explained at Options.Existing.
var errNoWorker = errors.New("postgres: a journal that was opened with Options.Existing has no sessions: open it without Options.Existing to send")

// joined returns an error if the session may not begin or claim anything: the journal counts as restored, or the
// session is not a living one of this process.
func (j *laneJournal) joined(id string) error {
	if err := j.fleet.Refusal(); err != nil {
		return err
	}
	_, err := j.fleet.Sessions.Mine(id)
	return err
}
