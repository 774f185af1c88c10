// Package sqlite keeps a journal in one SQLite file, for the processes of one machine. It is the journal to
// start with, and durable by default: everything that Apply reported survives kill -9 and power loss.
//
// # How it writes
//
// One connection writes. A transaction takes all events that wait, reads the rows of their names, decides on each event,
// and commits. All waiting callers share one fsync. No timer is involved, so a single caller never waits for others. No
// caller learns of success before the commit.
//
// A rejected event fails alone. A failed commit is rolled back, and fails its events. The next commit starts afresh, so
// the journal recovers alone once the fault (a full disk) is gone. A caller whose context ends gets its error at once,
// without an effect on other events. Its own event may have been recorded.
//
// The file is in WAL mode with synchronous=FULL. Without it, a commit survives the end of the process but not
// the loss of power (https://sqlite.org/wal.html, https://sqlite.org/pragma.html#pragma_synchronous). Every
// pragma is read back. A second goroutine moves the WAL into the file.
//
// # Where an operation is kept
//
// Each operation has a row. Its request and its answer lie in tables of their own, so that the row does not grow. One
// index has the digest of each name, and refuses a second one. Strangers choose names, so the digests use a random key.
// The key is in the file and never changes: a Backup has it too, and Adopt keeps it. The journal keeps no operation in
// memory. One commit for many callers is group commit.
//
// # Several processes
//
// Any number of processes of one machine may open one file. They take turns, and none starves the others.
// A process that opens a file twice counts as two. A session belongs to the Journal that started it. WAL needs memory shared
// between the processes, which network file systems do not have: Open rejects them (ErrNetworkFilesystem). It accepts a
// file system in memory, or a container's own layer, with a warning (Options.Logger, Options.Volatile). Files
// there survive kill -9, but not a loss of power, or not the container.
//
// # Sessions
//
// A session is alive exactly as long as its process holds an OS lock on the session's file. The file's name
// is the journal's with -session- and the session's ID. The kernel drops the lock when the process ends in
// any way, and keeps it while the process is paused. No clock is involved.
//
// Do not remove or replace these files. A session without its file, or with a copy in its place (on Unix the
// inode shows it), means that the journal was copied or restored. Its operations are then rejected with
// journal.ErrRestored until Adopt is called. Claim skips such operations, and returns that error once it
// finds nothing else. A journal that was moved to another disk, together with all files beside it, continues
// normally.
//
// # Files
//
// docs/journal.md lists the files beside the journal, with their rules, and says how to restore, move and mount a journal. A
// file with a second link, or one that is mounted as a single file into a container, would have another -wal under each name.
// Open rejects both (ErrSecondName). All files have mode 0600, because they hold requests and answers.
//
// Open leaves a file of another layout as it is, and returns journal.ErrVersion. A process that has a file open when a newer
// release changes its layout records nothing more, and returns that error too.
//
// Programs that read a service's journal open it with Options.ReadOnly. Programs that also resolve or cancel
// use Options.Existing.
//
// # Tables of the application
//
// The application may have tables of its own in the file, so that a local step of a flow and its writes are
// one commit. They may exist before the journal. Open makes a journal in any SQLite database with text in
// UTF-8. It returns ErrNotJournal only if a name begins with onceward_, as all names of the journal do. The
// rest of the database stays unchanged, including user_version and application_id. But it is in WAL mode from
// then on, which the file shows to every program that opens it, and other users lose the right to read it.
// Open transactions of the application must end before that.
//
// A transaction of the application may enqueue an operation (EnqueueTx, with Tx). The delivery of an outcome
// is one commit with the application's writes for it (DeliverTx). Begin such a transaction with BEGIN IMMEDIATE
// (_txlock=immediate). A transaction that has read cannot write once another one was committed.
//
// Other code can break the journal's promises:
//
//   - In a process that has the journal open, open the file only with modernc.org/sqlite, as this package and BeginTx do. The
//     SQLite of another driver, such as github.com/mattn/go-sqlite3, does not know of it, and drops its locks
//     (https://sqlite.org/howtocorrupt.html, "Multiple copies of SQLite linked into the same application").
//   - No connection may have synchronous=OFF. Once it moves the WAL into the file, a loss of power takes recorded operations
//     (https://sqlite.org/pragma.html#pragma_synchronous).
//   - No other code may drop or change names that begin with onceward_. That includes tools that migrate schemas.
//
// A Backup has the application's tables too, and restores them. It fails if one of their indices uses a
// function or a collation that this process does not have. Verify then reads only the journal's tables.
//
// # Restored and copied journals
//
// A restored backup does not know what was sent since, and two copies do not know of each other. Another
// file, the -sidecar, detects that. It holds the journal's random identity and the number of a commit, at
// most a few seconds behind the latest, and none behind after Close. The journal was restored or copied, or
// lost its WAL, in any of these cases: its commits do not reach the sidecar's number; its identity is
// another; it has a history and no sidecar.
//
// Open opens such a journal. All methods that would send, decide or forget by its records (Join, Begin,
// Claim, Resolve, Reap) return journal.ErrRestored until Adopt is called. It can be read, and late answers
// are recorded.
//
// SQLite would take a -wal that is left beside a restored file for that file's own, and mix the two
// (https://sqlite.org/howtocorrupt.html, section 1.4). The -wal says which commits were in its file when it began. If the file
// lacks one of them, Open returns journal.ErrRestored before they are mixed. Open may miss the file of another journal, which
// Verify finds. A restored file with its own -wal is opened.
//
// If the file or its -wal is removed or replaced while the journal is open, the journal records nothing more
// (journal.ErrRestored) until that is undone. If its -wal is emptied, or an older copy is written over the file, it records
// nothing more until it was closed and opened again.
//
// To start over with an empty journal, remove the sidecar along with the journal. A killed process or a loss
// of power never makes a journal look restored. Backup marks its copies. The sidecar detects a copy of the
// journal's file that was made by other means. It does not detect a copy of the whole folder, such as a
// snapshot of the volume, which looks like the journal itself and sends the same operations. With
// Options.Deployment, another deployment rejects that copy. A copy under the same name is not detected.
//
// # Upkeep
//
// Reap removes expired operations a hundred a commit. Callers that wait go before the next hundred. To keep them elsewhere, run
// `onceward export` before. Removed data is overwritten with zeros (secure_delete). The name of a named operation and its
// outcome stay, without a digest of its request. Traces may remain in the -wal file until it starts over, and in copies of
// the file. A piece of a row, such as a key or a digest, may also remain in an unused part of a page until that is written
// again.
//
// Freed space is used again. The file keeps its largest size, because incremental vacuum would make every
// commit write pages of pointers too. A Backup is packed: to make the file smaller, restore one and adopt it.
// The -wal file starts over about every eight megabytes. It is cut to 64 MiB after a foreign open
// transaction, a Backup or a Verify delayed that. While they run, it can't be cut. Stats has the sizes of
// both.
//
// Every row of an operation, a flow or a receipt has a checksum over all of its columns. Data without a valid checksum is
// never used, and a read of it is an error. A name whose operation is missing is damaged too, and executes nothing.
// docs/journal.md says what a flipped bit in a page of SQLite's own does, and when to call Verify.
//
// If another program copies the WAL as it grows, as Litestream does, it must also move the WAL into the file:
// Options.ExternalCheckpointer. If only that copy outlives the machine, docs/journal.md has the recipe.
package sqlite
