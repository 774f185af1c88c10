// Package sqlite keeps a journal in one SQLite file, for the processes of one
// machine. It is the journal to start with, and durable by default: what Apply
// reported survives kill -9 and power loss.
//
// # How it writes
//
// One goroutine writes, on one connection. It begins a transaction with the first
// event that arrives, applies each as it comes, and commits when no more are
// waiting, so that everybody who waits shares one fsync. No timer is involved: a
// single caller waits for nobody. Nobody hears of success before the commit. An
// event that is refused fails alone; a commit that fails fails all that were in
// it, is rolled back, and the next one starts afresh, so that the journal goes on
// by itself once the fault (a full disk) is gone. A caller whose context ends gets
// its error at once and takes nobody else's event back; its own may have been
// recorded.
//
// The file is in WAL mode with synchronous=FULL: without it, a commit survives the
// end of the process but not the loss of power (https://sqlite.org/wal.html,
// https://sqlite.org/pragma.html#pragma_synchronous). Every pragma is read back.
// A goroutine of its own moves the WAL into the file meanwhile.
//
// # Where an operation is kept
//
// Every commit appends one row to a log, with all that it begins, completes or parks,
// so that it writes no more pages than these bytes fill. The operations that the log
// alone has, some five hundred, are in memory too. As it grows, the oldest are folded,
// within some commit: completed and delivered ones are packed into blocks, eight a
// row, and the others get a row of their own with its indices. What is tried again and
// again, flows and sessions make it grow too: it has at most 2,048 rows, or 16 MiB and the
// rows of one commit. Close folds what there is; a file that was closed by nobody is read
// as it is.
//
// IDs of operations in blocks are found by hashes, which take eight bytes of memory for
// each operation, and are read in the background once the file is open. Strangers make
// names: the hashes are under a random key, so that nobody can make many that collide.
// The key is in the file, and is as old as that: a Backup has it too, and Adopt leaves it.
//
// Where the field has words for these: the log is a commit log, or write-ahead log, of the
// journal's own (SQLite's WAL lies below it); what it alone has, in memory, is a memtable;
// folding is compaction; one commit for many callers is group
// commit.
//
// # Several processes
//
// Any number of processes of one machine may open one file; they take turns, and
// none starves the others. Within a process, every Open of the same file shares
// one writer. WAL needs memory shared between the processes, which file systems
// over a network do not give: they are refused (ErrNetworkFilesystem). One that is in memory,
// or a container's own layer, is accepted with a warning (Options.Logger, Options.Volatile):
// what lies there survives kill -9, but no loss of power, or not its container.
//
// # Sessions
//
// A session is alive exactly as long as its process holds an OS lock on a file of
// the session's own, named as the journal with -session- and the session's ID
// behind it. The kernel drops the lock when the process ends, however it does, and
// keeps it while the process is paused; no clock is involved. Don't remove or replace
// these files: a session without its file, or with a copy in its place (which tells on
// Unix by its inode), is taken for a sign that the journal was copied or restored, and
// what it holds is refused with journal.ErrRestored, until Adopt is called. Claim passes
// over such operations, and returns that error once it finds nothing else. A journal
// that was moved to another disk, with all that lies beside it, goes on as it would have.
//
// # Files
//
// A journal has one name. A file with a second link, or one that is mounted by itself, as
// a single file is into a container, would have another -wal under each, and neither side
// would see what the other records: both are refused (ErrSecondName). Mount the folder
// that the journal is in; containers of one machine may share it.
//
// Beside the journal lie its -wal and -shm files, which belong to it: never copy,
// move or remove the one without the others while a process has it open, and never
// open the file by other means than SQLite in a process that has it open: closing
// it drops that process's locks (https://sqlite.org/howtocorrupt.html). All files
// have mode 0600: they hold requests and answers.
//
// Open migrates the file of an older release, unless it is told not to
// (Options.NoMigration); a process of that older release which has it open records
// nothing from then on, and says so (journal.ErrVersion).
//
// Programs that look at a service's journal open it with Options.ReadOnly, beside it; those that
// also resolve or cancel, with Options.Existing and Options.NoMigration.
//
// # Tables of the application
//
// The application may have tables of its own in the file, so that a local step of a flow
// is one commit with what it writes. They may be there before the journal: Open makes one
// in any SQLite database whose text is in UTF-8, and refuses it (ErrNotJournal) only where
// a name begins with onceward_, as all names of the journal's do. The rest of the database
// stays as it is, user_version and application_id too. But it is in WAL mode from then on,
// which the file says to everybody who opens it, and others lose the right to read it. Before
// that can be done, transactions that the application has open must end.
//
// A transaction of the application's own may enqueue an operation (EnqueueTx, by Tx), and an outcome's
// delivery is one commit with what the application writes for it (DeliverTx). What is recorded so waits in a
// table beside the log for the next commit of any process, which takes it in before it does anything else;
// Get, List and Claim have that done first. With Options.ReadOnly it is not seen before that. Begin such a
// transaction with BEGIN IMMEDIATE (_txlock=immediate): one that has read, and in the meantime another was
// committed, can't go on to write.
//
// What others do to the file may undo what the journal has promised:
//
//   - In a process that has the journal open, open the file with modernc.org/sqlite alone,
//     as this package and BeginTx do. The SQLite of another driver, such as
//     github.com/mattn/go-sqlite3, knows nothing of it, and drops its locks
//     (https://sqlite.org/howtocorrupt.html, "Multiple copies of SQLite linked into the same
//     application").
//   - No connection may have synchronous=OFF: once it moves the WAL into the file, a loss of
//     power takes what was recorded (https://sqlite.org/pragma.html#pragma_synchronous).
//   - What begins with onceward_ is nobody else's to drop or to change, be it by a tool that
//     migrates schemas.
//
// A Backup has the application's tables too, and brings them back with it. It fails where
// an index of theirs uses a function or a collation that this process has not. Verify reads
// the journal's tables alone then, and not the application's.
//
// # Restored and copied journals
//
// A journal that was put back from a backup knows nothing of what was sent since, and
// two copies of one know nothing of each other. So another file lies beside it, its
// -sidecar. It holds the journal's random identity, which the journal has too, and the
// number of a commit, at most a few seconds behind the latest, and none behind after
// Close. A journal that has not come as far as its sidecar says, whose identity is
// another, or that has any history and no sidecar, was restored or copied, or lost its
// WAL. Open opens it; but whatever would send, decide or forget by its record (Join, Begin,
// Claim, Resolve, Reap) is refused with journal.ErrRestored, until Adopt is called. It can
// be read, and answers that come late are recorded.
//
// Before a backup is put back, end every process that has the journal open, and remove
// its -wal and -shm files: SQLite would take an old -wal for the backup's own, and mix
// the two (https://sqlite.org/howtocorrupt.html, section 1.4). Open tells by the sidecar
// that the file is from before its -wal began, refuses the two with journal.ErrRestored
// before they are mixed, and changes nothing: remove -wal and -shm then, open it again,
// and adopt it. What it may miss is a -wal that began moments before its process was
// killed, a copy of the file alone that was made, in use, moments before the -wal began,
// and the file of another journal; Verify finds these. A file that was put back with its
// own -wal is opened.
// Leave the sidecar where it is, and never put it back with the backup: a copy of both
// looks whole. A journal whose file, or whose -wal, is removed or replaced while it is
// open records nothing from then on (journal.ErrRestored), until that is undone; nor does one
// whose -wal is emptied or cut short, until it was closed and opened again.
//
// To start over with an empty journal, remove the sidecar along with the journal. A
// process that is killed, and a loss of power, never make a journal look restored.
// Backup makes copies that say what they are. The sidecar shows a copy of the journal's file that was made
// by other means. It does not show a copy of the whole folder, such as a snapshot of the volume: that looks like
// the journal itself, and sends what the journal sends. Options.Deployment has another deployment refuse
// it. Of a copy under the same name only the machine tells, and Open warns of that.
//
// # Upkeep
//
// Reap takes what is past its keep, little by little, and lets others go first; Archive
// keeps it elsewhere. What it takes is written over with zeros (secure_delete): of a named
// operation, its name and what became of it stay, and no digest of what was sent. Only the
// -wal file, until it starts over, and the last page of the log, until some more commits
// were made, may have traces; copies that were made of the file are their makers'.
// What Reap frees is used again: the file stays as large as it once
// had to be, since giving pages back one by one (incremental vacuum) would make every
// commit write pages of pointers too. A Backup is packed; to make the file smaller, put
// one in its place and adopt it. The -wal file starts over about every eight megabytes,
// and is cut to 64 MiB where something has kept it from that: an open transaction of
// somebody else's, a Backup or a Verify. As long as that goes on, nothing can cut it.
// Stats tells how large both are.
//
// Everything that is kept of an operation or a flow is under a checksum, the columns of
// its row too, and so is what operations are found by; none of it is believed without it,
// and an operation that is nowhere, though its name is known, was either removed by Reap,
// which is noted, or is damaged: a bit that flips on the disk is an error where it is
// read, and executes no name again. SQLite's indices have no checksums. Where one has lost its entry, Claim and
// ClaimFlows may pass over what is due, and a flow may not be found by its name; Verify
// names that.
//
// Verify reads everything and names what is wrong. Run it on a restored backup before
// it is adopted, and now and then on a journal in use.
//
// Another program may copy the WAL as it grows, as Litestream does. It has to move the
// WAL into the file itself, then: Options.ExternalCheckpointer.
//
// # A disk that goes with its machine
//
// Where nothing but such a copy outlives the machine, restore it before the process
// starts, and call Adopt at every start: there is no sidecar, so that the journal counts
// as restored, and on one that is whole, or new, Adopt does nothing. With Litestream:
//
//	litestream restore -if-db-not-exists -if-replica-exists payments.db
//	litestream replicate -exec ./service
//
// That has its price, at every start on a new disk. What was recorded in the time that the
// copy was behind (Litestream's sync-interval, a second) is missing: a name that was begun
// then executes again when it is asked for. Every operation without an answer counts as
// sent, and what was cancelled is unknown: the resend rule decides, and the rest waits for
// Resolve. And there must be one machine at a time: end the old one before the new one
// restores. A volume that outlives the machine costs nothing of this.
package sqlite
