package postgres

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/internal/fleet"
	"github.com/onceward/onceward/journal/postgres/internal/reader"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// Rows reports whether the tests open the engine over rows.
var Rows = os.Getenv("ONCEWARD_POSTGRES_ENGINE") == "rows"

func init() {
	if Rows {
		chosen = rowLayout
	}
}

// within returns the journal's part in the leases, connections to the database, the schema, and a context that ends once
// the journal waits for the server no more.
func within(j *Journal) (*fleet.Fleet, *pgxpool.Pool, string, context.Context) {
	if rows, is := j.engine.(*rowJournal); is {
		return rows.driver.ForTest()
	}
	l := laned(j)
	return l.fleet, l.pool, l.schema, l.background
}

func fleetOf(j *Journal) *fleet.Fleet {
	f, _, _, _ := within(j)
	return f
}

// Freeze makes another process find a session of j dead while its own process goes on, unaware.
func Freeze(ctx context.Context, j *Journal, s journal.Session) error {
	return fleetOf(j).Bury(ctx, []string{s.ID()}, nil)
}

// MigrateBy is Migrate of a release with these files.
func MigrateBy(ctx context.Context, connString, schema string, files fs.FS) error {
	cfg, err := pgx.ParseConfig(connString)
	if err != nil {
		return err
	}
	return chosen.migrate(ctx, cfg, schema, slog.New(slog.DiscardHandler), files)
}

// Bury makes by find j's process dead, with that session.
func Bury(ctx context.Context, by, j *Journal, s journal.Session) error {
	return fleetOf(by).Bury(ctx, []string{s.ID(), fleetOf(j).Member().ID}, nil)
}

// BuryOthers makes j find all other processes dead.
func BuryOthers(ctx context.Context, j *Journal) error {
	_, pool, schema, _ := within(j)
	rows, err := pool.Query(ctx, "SELECT id FROM "+schema+".sessions WHERE process <> $1 AND buried_at IS NULL", fleetOf(j).Member().ID)
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	return fleetOf(j).Bury(ctx, ids, nil)
}

// Kill makes a session die, as by kill -9 of its process, and be found dead.
func Kill(ctx context.Context, s journal.Session) error {
	own, is := s.(*session)
	if !is {
		rowstore.Kill(s)
		return nil
	}
	own.Lose()
	return own.j.fleet.Bury(ctx, []string{own.ID()}, nil)
}

// Hasten shortens the leases, beats and timeouts of a journal. A session still has to outlive the delays of a busy machine,
// and the second that its heart waits for another transaction's lock (slowLock).
func Hasten(opts *Options) {
	opts.pace = pace{Pace: leased.Pace{TTL: 6 * time.Second, Beat: 400 * time.Millisecond, Again: 100 * time.Millisecond, Lost: 5 * time.Second}, testify: 500 * time.Millisecond, close: 500 * time.Millisecond,
		handler: 3 * time.Second}
}

// Still keeps a journal's heart from beating during a test. The heart sends no queries then.
func Still(opts *Options) {
	opts.pace = usualPace
	opts.pace.TTL, opts.pace.Beat, opts.pace.Lost = time.Hour, time.Hour, time.Hour
}

// CommitIn gives the journal's transactions that much time.
func CommitIn(j *Journal, most time.Duration) { laned(j).commitTime = most }

// ClaimScans makes claims for some providers go through that many pending operations in one commit.
func ClaimScans(j *Journal, n int) {
	if !Rows { // there, an index has the provider's operations
		laned(j).claimScans = n
	}
}

// ReadBytes makes the journal read that many bytes of bodies in a commit.
func ReadBytes(j *Journal, most int) {
	if rows, is := j.engine.(*rowJournal); is {
		rowstore.LimitBytes(rows.store, most)
		return
	}
	laned(j).readBytes = most
}

// LastJoin is the time of the last join, as far as the journal remembers.
func LastJoin(j *Journal) time.Time { return fleetOf(j).Memory.LastJoin() }

// Background ends when the journal no longer waits for the server.
func Background(j *Journal) <-chan struct{} {
	_, _, _, background := within(j)
	return background.Done()
}

// RotateAfter makes the journal's lanes take another row after that many batches.
func RotateAfter(j *Journal, batches int) {
	if rows, is := j.engine.(*rowJournal); is {
		rows.driver.RotateAfter(batches)
		return
	}
	laned(j).rotateAfter = batches
}

// Statement is a statement as it is run.
type Statement struct {
	SQL  string
	Args []any
}

// Planned returns the statements whose plans must not change: of claims, pages of lists, look-ups, and receipts. by is a time
// until which some of many operations are due, and holder a session that holds some.
func (j *Journal) Planned(by int64, holder string) map[string]Statement {
	ref := journal.Ref{ID: "order-77"}
	receipt := journal.Receipt{ReceiptKey: journal.ReceiptKey{Scope: "t acme", Key: "key-77"}, Handle: 7, State: journal.ReceiptReserved}
	id := record.ReceiptID(receipt.ReceiptKey)
	names, values := record.ReceiptArgs(receipt)
	reserved := append(append(append([]any{id}, names...), values...), laned(j).fleet.ID(), nil, laned(j).receiptLock(id))
	completed := receiptChange(id, record.ReceiptRow{Receipt: receipt, Facts: record.FactsOf(receipt)}, &receipt)
	all := map[string]Statement{
		"claim: count due operations":               {dueCount, []any{by, fewDue + 1}},
		"claim: few are due":                        {dueFew, []any{nil, 1, 100, by}},
		"claim: many are due":                       {dueMany, []any{nil, 1, 100, int64(math.MaxInt64), int64(math.MaxInt64)}},
		"claim: how far":                            {dueEnd, []any{1, 100}},
		"claim: operations of dead sessions":        {heldBy, []any{nil, 1, 100, holder, false}},
		"claim: operations without a holder":        {nobodys, []any{false, 1, 100}},
		"claim: all holders":                        {fmt.Sprintf(deadHolders, "operations"), nil},
		"claim, reap and look-up: whole operations": {wholeOfThese, []any{[]int64{7, 8, 9}, 1 << 20}},
		"claim flows: held":                         {record.SelectFlow + fmt.Sprintf(heldFlows, "") + " FOR UPDATE SKIP LOCKED", []any{holder, [][]byte{[]byte("ride")}, []int64{1}, 100, []int64{0}}},
		"claim flows: due":                          {record.SelectFlow + fmt.Sprintf(dueFlows, "") + " FOR UPDATE SKIP LOCKED", []any{by, [][]byte{[]byte("ride")}, []int64{1}, 100, []int64{0}}},
		"look":                                      {dueLooks, []any{nil, by, 100, []int64{0}}},
		"reap":                                      {settledBy, []any{by, 0, 0, reapRead}},
		"get":                                       {record.WholeFrom + "WHERE " + record.ByRef, []any{record.Digest(ref), []byte(ref.ID), []byte(""), []byte("")}},
		"find by a key or a reference":              {reader.FindBySQL, []any{77, true, []byte("ledger"), reader.LengthAndKey("key-77"), []byte("key-77")}},
		"heard":                                     {"SELECT EXISTS (SELECT 1 FROM {{schema}}.heard WHERE digest = $1)", []any{record.Digest(ref)}},
		"flow":                                      {record.SelectFlow + " WHERE identity = $1", []any{record.Digest(ref)}},
		"sweep":                                     {unanswered, []any{1, sweepPage}},
		"sweep: the rows":                           {headsOf, []any{[]int64{7, 8, 9}}},
		"sweep: many":                               {manyToSweep, []any{by, sweepPage}},
		"sweep: revisions":                          {revisions, nil},
		"sweep: flows that are due":                 {flowsDue, []any{by}},
		"sweep: flows":                              {flowsDueAfter, []any{by, 1, sweepPage}},
		"receipt by its key: look":                  {record.WholeReceipt + "WHERE identity = $1", []any{id}},
		"receipt by its key: reserve":               {laned(j).sql.receipts.insertAnywhere, reserved},
		"receipt by its key: locked":                {receiptHere, []any{id}},
		"receipt by its key: complete":              {laned(j).sql.receipts.complete, completed},
		"receipt: reap":                             {endedReceipts, []any{by, 100, []int64{7, 8, 9}}},
		"steps":                                     {record.StepsOfFlows, []any{[]int64{7, 8, 9}}},
	}
	for name, filter := range map[string]journal.Filter{
		"all": {}, "newest": {Newest: true}, "pending": {States: []journal.State{journal.StatePending}},
		"unsettled":       {States: []journal.State{journal.StatePending, journal.StateInFlight, journal.StateUnknown}},
		"unknown, newest": {States: []journal.State{journal.StateUnknown}, Newest: true},
		"undelivered":     {Undelivered: true}, "needs attention": {NeedsAttention: time.Now()}, "by wake": {ByWake: true}, "woken before": {WakeBefore: time.UnixMilli(by)},
	} {
		all["list: "+name] = readBy(func(read reader.Reader) {
			for range read.List(context.Background(), filter) {
			}
		})
	}
	for name, filter := range map[string]journal.FlowFilter{
		"all": {}, "due": {ByDue: true}, "of a function, open": {States: []journal.FlowState{journal.FlowStateRunning, journal.FlowStateWaiting}, Functions: []journal.FlowFunction{{Name: "ride", Version: 1}}},
	} {
		all["list flows: "+name] = readBy(func(read reader.Reader) {
			for range read.ListFlows(context.Background(), filter) {
			}
		})
	}
	for name, s := range all {
		all[name] = Statement{laned(j).in(s.SQL), s.Args}
	}
	return all
}

// readBy returns the last statement of a list of an empty journal.
func readBy(list func(reader.Reader)) (last Statement) {
	list(func(_ context.Context, _ func(record.Scanner) error, query string, args ...any) error {
		last = Statement{query, args}
		return nil
	})
	return last
}

// Change replaces the stored fields of an operation, as a release with other fields would.
func Change(ctx context.Context, j *Journal, ref journal.Ref, change func(op *journal.Operation)) error {
	r, err := record.Scan(laned(j).pool.QueryRow(ctx, "SELECT "+record.Columns+laned(j).fromOperations()+"WHERE o.id = $1", []byte(ref.ID)))
	if err != nil {
		return err
	}
	op := r.Op
	change(&op)
	_, err = laned(j).pool.Exec(ctx, "UPDATE "+laned(j).schema+".operations SET facts = $1, revision = revision + 1 WHERE handle = $2", record.Encode(&op, r, false, false).Facts, op.Handle)
	return err
}

// Waiting is the number of writes that wait for the first lane.
func Waiting(j *Journal) int {
	if rows, is := j.engine.(*rowJournal); is {
		return rows.store.Queued()
	}
	return laned(j).group.Waiting()
}

// laned returns the engine that keeps rows in memory.
func laned(j *Journal) *laneJournal { return j.engine.(*laneJournal) }
