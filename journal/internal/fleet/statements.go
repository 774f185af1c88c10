package fleet

import (
	"context"
	"time"

	"github.com/onceward/onceward/journal/internal/leased"
)

// Database is a database server with the journal. Its methods are safe for concurrent use.
type Database interface {
	// Connect makes a connection of the journal's own. It checks neither the server nor the journal.
	Connect(ctx context.Context) (Conn, error)
	// Fenced runs f in a transaction behind the guard. rowstore.ErrMissed and rowstore.ErrLocked mean that another
	// transaction was in the way.
	Fenced(ctx context.Context, f func(ctx context.Context, t Tx) error) error
	// Living returns those of the sessions that are not buried.
	Living(ctx context.Context, ids []string) ([]string, error)
	// Waits reports whether another process's session holds something under a lease that is over.
	Waits(ctx context.Context, own string) (bool, error)

	// Meaning returns an error of package rowstore for the database's error, with words for operators.
	Meaning(err error) error
	// Explain returns the error for callers. doing says what failed.
	Explain(doing string, err error) error
	// FateOf says what the database's error leaves behind.
	FateOf(err error) Fate
}

// Fate says what an error of the database leaves behind.
type Fate struct {
	Outage   bool // the connection is gone, or the server is going: another connection may do
	Rejected bool // the statement had no effect, and the connection goes on
	Locked   bool // another transaction held a row for too long
	Late     bool // the statement's time was over
}

// Conn is a connection of the journal's own. One goroutine at a time uses a Conn.
type Conn interface {
	// Broken reports whether the connection is known to be gone.
	Broken() bool
	HangUp()
	// Check returns an error for a server that a journal is not safe on, or else of Fleet.CheckJournal.
	Check(ctx context.Context) error

	// Look reads the journal's row. The error is journal.ErrVersion if only later releases may write.
	Look(ctx context.Context) (Journal, error)
	// Sight reads the journal's row, and more signs of its past. member is this process, or "".
	Sight(ctx context.Context, member string) (Sighting, error)
	// Moved compares where the journal lies with where it lay before. It returns the sign of a copy, or "". The first
	// caller, and a caller that accepts another place, records the place and the deployment.
	Moved(ctx context.Context, is Sighting) (why string, err error)
	// Mark records why the journal counts as restored, in that epoch only, unless a reason is recorded already. The mark of
	// an adoption on its way is no reason. Mark raises the tenure of every lane.
	Mark(ctx context.Context, epoch int64, why string) (Journal, error)
	// Testify raises the number for the witness.
	Testify(ctx context.Context) (number, epoch int64, err error)
	// Commits returns the lanes' batches of a process, and when the journal's latest session began.
	Commits(ctx context.Context, process string) (batches map[int]int64, joined time.Time, err error)

	// Enroll makes a row for a process's own session, and returns the epoch. It waits for a transaction that begins another
	// epoch, which may not see the row.
	Enroll(ctx context.Context, id string) (epoch int64, err error)
	// Renew renews sessions that live in the epoch, and returns them.
	Renew(ctx context.Context, epoch int64, ids []string) (map[string]Lease, error)
	// Leases returns those of the sessions that have a row.
	Leases(ctx context.Context, epoch int64, ids []string) (map[string]Lease, error)
	// Sessions returns the sessions that are not buried, in the order of their start. living leaves out the processes' own
	// sessions. joined is the latest start. It leaves out sessions that were buried 12 hours ago or earlier.
	Sessions(ctx context.Context) (all []leased.Beat, living []string, joined time.Time, err error)

	// AddLane makes a lane's row, or raises the tenure of the row that is there. It waits for a transaction that fences lanes,
	// which may not see the new one.
	AddLane(ctx context.Context, process string, lane int) (Row, error)
	// RaiseLane raises the tenure of a lane's row, once the holder of the row is done. The holder may be former, the lane's
	// connection before, which the server has not seen end yet. former may be nil.
	RaiseLane(ctx context.Context, former Conn, process string, lane int) (Row, error)
	Rollback(ctx context.Context) error
}

// Journal is the journal's row.
type Journal struct {
	Now              time.Time // the server's clock
	Restored         string    // why the journal counts as restored for all processes; "" for no reason
	Promoted         string    // the timeline of a promotion that not every process has answered; "" for none
	Epoch, Witnessed int64
	Sealed           string // rowstore.Head.Sealed
}

// Why returns why nothing is sent, or "".
func (j Journal) Why() string {
	if j.Restored == "" && j.Promoted != "" {
		return "the server was promoted, and not every live process has checked yet that it has everything"
	}
	return j.Restored
}

// Sighting is a journal as a new connection sees it.
type Sighting struct {
	Journal
	Deployment string // "" until the first process has recorded it
	Place      leased.Place
	Beats      *int64 // of the member's own session; nil if it has no row
	Because    string // the sign within the journal that it lacks rows; "" for none
}

// Lease is a session's row.
type Lease struct {
	Beats int64 // 0 if they say nothing
	Ended bool  // it was buried, or is of another epoch
	Over  bool  // by the server's clock
}

// Row is a lane's row.
type Row struct {
	There         bool
	Batch, Tenure int64
}

// Tx has the statements in a transaction behind the guard.
type Tx interface {
	// Join makes a session's row.
	Join(ctx context.Context, id string, m *leased.Member) error
	// FenceOff raises the tenure of all lanes of the sessions' processes, except those of the process own.
	FenceOff(ctx context.Context, ids []string, own string) error
	// StillDead locks a session's row, and reports whether the session has had no beat since, and its lease is over.
	StillDead(ctx context.Context, id string, beats int64) (bool, error)
	// Bury marks a session, and all sessions of a process with that ID, as dead.
	Bury(ctx context.Context, id string) error
	// Tidy removes rows of sessions that were buried leased.KeepDead ago, if no row needs them. The time that their lanes
	// have seen stays.
	Tidy(ctx context.Context) error

	// StillRestored locks the journal's row. It returns an error of another try unless the journal counts as restored for
	// that reason.
	StillRestored(ctx context.Context, why string) error
	// CutOff begins another epoch. It fences off all other lanes, ends all sessions, raises handles above those of any
	// copy, and records the journal's present place. The journal counts as restored from then on for the reason restored,
	// "" for none. CutOff raises the number for the witness by WitnessStep, to told at least.
	CutOff(ctx context.Context, word, restored string, told int64) error
	// Adopted removes the reason why the journal counts as restored.
	Adopted(ctx context.Context) error
}

// Standbys has the statements about a server that may have become another one under the same connection.
type Standbys interface {
	// Recheck repeats Conn.Check if the connection has reached another server, or a restarted one.
	Recheck(ctx context.Context, c Conn) error
	// Answer records that this process has found its commits after a promotion.
	Answer(ctx context.Context, c Conn, is Journal) error
	// Silent reports whether the journal waits for answers after a promotion. If one of the dead sessions owes one, the
	// journal counts as restored.
	Silent(ctx context.Context, c Conn, dead []string) (promoted bool, err error)
}
