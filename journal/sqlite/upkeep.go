package sqlite

import (
	"context"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Reap applies ev, of kind EventReap, to at most limit operations and returns the number that it shrunk or removed. It
// takes 100 per commit, so that no caller waits long. After an error in the middle, the number counts the operations before
// it. An operation whose row is damaged is skipped. One whose answer alone is damaged is reaped. The file keeps its size, and
// its free space is reused.
func (j *Journal) Reap(ctx context.Context, ev machine.Event, limit int) (int, error) {
	return j.store.Reap(ctx, ev, limit)
}

// Adopt makes a restored or copied journal the one to continue with. Its methods no longer return
// journal.ErrRestored afterwards. On any other journal it does nothing.
//
// By calling it you declare that no other copy of the journal is in use, or will be. Events after the copy
// was made are missing. Every operation without an answer counts as sent, from its creation until now, and is
// pending or unknown by the resend rule. Cancelled operations are unknown. Names that began after the copy
// was made are not known, and execute again when they are requested. Adoption cannot close that gap.
//
// Adopt processes the operations without an answer in commits of some hundred, so that late answers can be
// recorded in between. The journal counts as restored, and sends nothing, until the last of these commits. If
// Adopt returns an error, or its process dies, call it again: it starts over, and a second adoption changes
// nothing. An error about a damaged operation means that the journal was adopted, and that this operation
// stays unchanged.
func (j *Journal) Adopt(ctx context.Context) error { return j.store.Adopt(ctx) }

// AdoptAs is Adopt for a journal that moves to another deployment, restored or not. It records the name,
// which Open then requires. Every operation without an answer counts as sent, as after Adopt. Until it
// returns, the journal counts as restored. If it fails halfway, call it again.
//
// Call it on a Journal that was opened with Options.Existing and without Options.Deployment. With an empty
// name, the next Open with a name sets it.
func (j *Journal) AdoptAs(ctx context.Context, deployment string) error {
	return j.store.AdoptAs(ctx, deployment)
}

// Backup writes a copy of the journal, with the application's tables, to a new file at path, with mode 0600,
// while the journal is in use. Everything reported before the call is in it, and later records may be. It
// returns once the whole, packed file and its name survive a loss of power. The directory must exist. Backup
// returns fs.ErrExist if a file is at path, or a -journal or -wal beside it, or if another Backup to path goes on.
// Other callers do not wait for it, but the -wal file is not emptied until it is done.
//
// The copy is marked as one, with its time and the number of its latest commit. To restore it, stop every
// process that uses the journal, remove the journal's -wal and -shm files, put the copy in the journal's
// place, and leave the -sidecar. Then Open it. Until Adopt is called, it can only be read, and other methods
// return journal.ErrRestored, wherever it is opened.
func (j *Journal) Backup(ctx context.Context, path string) error {
	first := j.store.Flush
	if j.driver == nil {
		first = nil
	}
	return j.file.Backup(ctx, path, first)
}

// Violation is a fact in a journal that the state machine or the file's format excludes.
type Violation = journal.Violation

// Verify reads the whole journal and returns its violations, at most 1,000:
//
//   - the findings of SQLite's integrity_check (of the journal's tables alone, if the application has tables in the file);
//   - every operation and flow that breaks an invariant of the state machine (machine.Violations, machine.FlowViolations);
//   - every record that another one contradicts or lacks.
//
// A sound journal has none. A violation is damage: keep a copy of the file, and restore a backup.
//
// It runs beside the use of the journal, on a connection of its own, and changes nothing. It reads operations
// in pages, each as of one moment, so it may miss operations that begin meanwhile. integrity_check reads one
// moment, and the -wal file is not emptied until it is done. It returns an error if the journal could not be
// read to its end.
func (j *Journal) Verify(ctx context.Context) ([]Violation, error) { return j.store.Verify(ctx) }
