package sqlite

import (
	"context"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Reap applies ev, with kind EventReap, to at most limit operations and returns how many it shrank or removed. Reap
// takes 100 per commit, so no caller waits long. After an error in the middle, the number counts the operations before
// the error. Reap skips an operation with a damaged row. If only the answer is damaged, the operation is reaped. The
// file keeps its size, and the free space is reused.
func (j *Journal) Reap(ctx context.Context, ev machine.Event, limit int) (int, error) {
	return j.store.Reap(ctx, ev, limit)
}

// Adopt makes a restored or copied journal the one to continue with. The methods no longer return journal.ErrRestored
// afterwards. On any other journal Adopt does nothing.
//
// By calling Adopt you declare: no other copy of the journal is in use, or will be. Events since the copy are missing.
// Every operation without an answer counts as sent, from its creation until now, and is pending or unknown by the resend
// rule. Cancelled operations are unknown. Names begun since the copy are not known, and execute again when a caller asks.
// Adoption cannot close this gap.
//
// Adopt processes the operations without an answer in commits of some hundred, so late answers can be recorded in
// between. The journal counts as restored, and sends nothing, until the last commit. If Adopt returns an error, or the
// process dies, call Adopt again: Adopt starts over, and a second adoption changes nothing. After an error about a damaged
// operation the journal is adopted, and this operation stays unchanged.
func (j *Journal) Adopt(ctx context.Context) error { return j.store.Adopt(ctx) }

// AdoptAs is Adopt for a journal's move to another deployment, restored or not. AdoptAs records the name, which Open then
// requires. Every operation without an answer counts as sent, as after Adopt. Until AdoptAs returns, the journal counts as
// restored. If AdoptAs fails halfway, call AdoptAs again.
//
// Call AdoptAs on a Journal opened with Options.Existing and without Options.Deployment. With an empty name, the next Open
// with a name sets the name.
func (j *Journal) AdoptAs(ctx context.Context, deployment string) error {
	return j.store.AdoptAs(ctx, deployment)
}

// Backup writes a copy of the journal, with the application's tables, to a new file at path, with mode 0600,
// while the journal is in use. The copy has everything reported before the call, and may have later records. Backup
// returns once the whole, packed file and the file's name survive a loss of power. The directory must exist. Backup
// returns fs.ErrExist if there is a file at path, or a -journal or -wal beside it, or if another Backup to path goes on.
// Other callers do not wait, but the -wal file is not emptied until Backup is done.
//
// The copy is marked as a copy, with the time and the latest commit's number. To restore the copy, stop every process
// with the journal, remove the journal's -wal and -shm files, put the copy in the journal's place, and leave the
// -sidecar. Then Open the journal. Until Adopt is called, the copy can only be read, and other methods return
// journal.ErrRestored, on any machine.
func (j *Journal) Backup(ctx context.Context, path string) error {
	first := j.store.Flush
	if j.driver == nil {
		first = nil
	}
	return j.file.Backup(ctx, path, first)
}

// Violation is a fact in a journal which the state machine or the file's format excludes.
type Violation = journal.Violation

// Verify reads the whole journal and returns its violations, at most 1,000:
//
//   - the findings from SQLite's integrity_check (for the journal's tables alone, if the application has tables in the
//     file);
//   - every operation and flow outside the state machine's invariants (machine.Violations, machine.FlowViolations);
//   - every record which another one contradicts or lacks.
//
// A sound journal has none. A violation is damage: keep a copy of the file, and restore a backup.
//
// Verify runs beside the journal's use, on a connection of its own, and changes nothing. Verify reads operations in
// pages, each as of one moment, so Verify may miss operations which begin meanwhile. The integrity_check reads one moment,
// and the -wal file is not emptied until the check is done. Verify returns an error if the journal could not be read to
// the end.
func (j *Journal) Verify(ctx context.Context) ([]Violation, error) { return j.store.Verify(ctx) }
