// Package sqlite keeps a journal in one SQLite file, for the processes on one machine. Start with this journal. It is
// durable by default: everything reported by Apply survives kill -9 and power loss.
//
// # Writes
//
// One connection writes. A transaction takes all waiting events, reads the rows under the events' names, decides on each
// event, and commits. All waiting callers share one fsync (group commit). No timer is involved, so a single caller never
// waits for others. No caller learns about success before the commit.
//
// A rejected event fails alone. A failed commit is rolled back, and the commit's events fail. The next commit starts
// afresh, so the journal recovers alone once the fault (a full disk) is gone. If a caller's context ends, the caller gets
// the error at once, without an effect on other events. The caller's own event may have been recorded.
//
// The file is in WAL mode with synchronous=FULL. Without this setting, a commit survives the process's end but not a
// power loss (https://sqlite.org/wal.html, https://sqlite.org/pragma.html#pragma_synchronous). Every pragma is read
// back. A second goroutine moves the WAL into the file.
//
// # An operation's place
//
// Each operation has a row. Request and answer lie in separate tables, so the row does not grow. One index has each
// name's digest, and refuses a second one. Strangers choose names, so the digests use a random key. The key is in the
// file and never changes: a Backup has the same key, and Adopt keeps the key. The journal keeps no operation in memory.
//
// # Several processes
//
// Any number of processes on one machine may open one file. The processes take turns, and none starves the others. A
// process which opens a file twice counts as two. A session belongs to the Journal which started the session. WAL needs
// memory shared between the processes. Network file systems do not have shared memory, so Open rejects such a file system
// (ErrNetworkFilesystem). Open accepts a file system in memory, or a container's own layer, with a warning
// (Options.Logger, Options.Volatile). Files there survive kill -9, but not a loss of power, or not the container.
//
// # Sessions
//
// A session is alive exactly as long as the process holds an OS lock on the session's file. The file's name is the
// journal's with -session- and the session's ID. The kernel drops the lock when the process ends in any way, and keeps
// the lock while the process is paused. No clock is involved.
//
// Do not remove or replace these files. If a session's file is missing, or is a copy (on Unix the inode shows a copy), the
// journal was copied or restored. The session's operations are then rejected with journal.ErrRestored until Adopt is
// called. Claim skips such operations, and returns the error once Claim finds nothing else. A journal moved to another
// disk, together with all files beside the journal, continues normally.
//
// # Files
//
// docs/journal.md lists the files beside the journal, with rules for each, and says how to restore, move and mount a
// journal. A file with a second link, or mounted as a single file into a container, would have another -wal under each
// name. Open rejects both (ErrSecondName). All files have mode 0600, because they hold requests and answers.
//
// Open does not change a file with another layout, and returns journal.ErrVersion. If a newer release changes the layout
// while a process has the file open, the process records nothing more, and returns the same error.
//
// Programs which read a service's journal use Options.ReadOnly. Programs which also resolve or cancel use
// Options.Existing.
//
// # The application's tables
//
// The application may have tables of its own in the file, so a flow's local step and the step's writes are one commit.
// These tables may exist before the journal. Open makes a journal in any SQLite database with text in UTF-8. Open returns
// ErrNotJournal only if a name begins with onceward_, as all names in the journal do. The rest of the database stays
// unchanged, including user_version and application_id. But the database is in WAL mode from then on, as the file shows to
// every program, and other users lose the right to read the file. The application's open transactions must end before.
//
// A transaction of the application may enqueue an operation (EnqueueTx, with Tx). An outcome's delivery and the
// application's writes for the outcome are one commit (DeliverTx, for Outcomes.HandleTx). Begin such a transaction with
// BEGIN IMMEDIATE (_txlock=immediate). A transaction which has read cannot write once another one was committed.
//
// Other code can break the journal's promises:
//
//   - In a process with an open journal, open the file only with modernc.org/sqlite, as this package and BeginTx do.
//     Another driver's SQLite, such as github.com/mattn/go-sqlite3, does not know ours, and drops our locks
//     (https://sqlite.org/howtocorrupt.html, "Multiple copies of SQLite linked into the same application").
//   - No connection may have synchronous=OFF. Once such a connection moves the WAL into the file, a loss of power takes
//     recorded operations (https://sqlite.org/pragma.html#pragma_synchronous).
//   - No other code may drop or change names with the prefix onceward_. This rule includes tools for schema migration.
//
// A Backup has the application's tables too, and restores these tables. Backup fails if an index on these tables uses a
// function or a collation which this process does not have. Verify then reads only the journal's tables.
//
// # Restored and copied journals
//
// A restored backup does not know what was sent since, and two copies do not know about each other. Another file, the
// -sidecar, detects both cases. The sidecar holds the journal's random identity and a commit's number, at most a few
// seconds behind the latest, and none behind after Close. The journal was restored or copied, or lost the WAL, in any of
// these cases:
//
//   - The journal's commits do not reach the sidecar's number.
//   - The identity is another.
//   - There is a history and no sidecar.
//
// Open opens such a journal. All methods which would send, decide or forget by the records (Join, Begin, Claim, Resolve,
// Reap) return journal.ErrRestored until Adopt is called. The journal can be read, and late answers are recorded.
//
// If the former -wal is left beside a restored file, SQLite would mix the two
// (https://sqlite.org/howtocorrupt.html, section 1.4). The -wal says which commits were in the file when the -wal began. If
// the file lacks one of these commits, Open returns journal.ErrRestored before SQLite mixes them. Open may miss another
// journal's file, which Verify finds. A restored file with its own -wal is opened.
//
// If the file or the -wal is removed or replaced while the journal is open, the journal records nothing more
// (journal.ErrRestored) until the old files are back. If the -wal is emptied, or an older copy is written over the file,
// the journal records nothing more until it was closed and opened again.
//
// To start over with an empty journal, remove the sidecar along with the journal. A killed process or a loss of power
// never makes a journal look restored. Backup marks the copies. The sidecar detects other copies of the journal's file.
// The sidecar does not detect a whole folder's copy, such as a volume snapshot, which looks like the journal itself and
// sends the same operations. With Options.Deployment, another deployment rejects such a copy. A copy under the same
// name is not detected.
//
// # Upkeep
//
// Reap removes expired operations a hundred a commit. Waiting callers go before the next hundred. To keep expired
// operations elsewhere, run `onceward export` before. Removed data is overwritten with zeros (secure_delete). A named
// operation's name and outcome stay, without the request's digest. Traces may remain in the -wal file until the -wal
// starts over, and in copies of the file. A piece of a row, such as a key or a digest, may also remain in a page's
// unused part until the part is written again.
//
// Freed space is used again. The file keeps the largest size, because incremental vacuum would make every commit write
// pages of pointers too. A Backup is packed: to make the file smaller, restore and adopt a backup. The -wal file starts
// over about every eight megabytes. If a foreign open transaction, a Backup or a Verify delayed the new start, the -wal is
// cut to 64 MiB afterwards. Stats has both sizes.
//
// Every operation's, flow's or receipt's row has a checksum over all columns. Data without a valid checksum is never used,
// and reading such data is an error. A name without an operation is damaged too, and executes nothing. docs/journal.md
// says what a flipped bit in one of SQLite's own pages does, and when to call Verify.
//
// If another program copies the growing WAL, as Litestream does, the program must also move the WAL into the file:
// Options.ExternalCheckpointer. If only the copy outlives the machine, docs/journal.md has the recipe.
package sqlite
