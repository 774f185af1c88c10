package sqlite

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
)

var (
	// ErrNotJournal: the file is not a journal, and no database that one can be made in.
	ErrNotJournal = errors.New("sqlite: not a journal")
	// ErrNetworkFilesystem: the file lies on a file system over a network, on which
	// WAL does not work (https://sqlite.org/wal.html, "Overview").
	ErrNetworkFilesystem = osfile.ErrNetwork
	// ErrSecondName: the file, or one beside it that belongs to it, may be reached by
	// another name: it has several links, or is mounted by itself. Under each name it would
	// have another WAL, and neither would know what is recorded under the other.
	ErrSecondName = errors.New("sqlite: a file with a second name")
	// ErrDeployment is returned for the journal of another deployment than Options.Deployment names, as in a
	// snapshot of production's volume that staging was started with. Nothing was recorded or sent.
	ErrDeployment = errors.New("sqlite: the journal of another deployment")
	// ErrReadOnly: the journal was opened to be read alone (Options.ReadOnly).
	ErrReadOnly = errors.New("sqlite: opened read-only")
)

// Options say how a journal is opened. The zero value is what is recommended.
type Options struct {
	// Deployment names whose journal it is, such as "prod", or "prod/payments-0" for a replica with a file of its
	// own. The first Open that has a name records it in the file, and Backup copies it. From then on Open with another
	// name, or with none, returns ErrDeployment: a copy of the whole folder looks like the journal itself, and would send
	// what that sends. Zero means that no name is recorded or asked for, and a file that has none opens. With
	// ReadOnly or Existing a file of any deployment opens without a name, and then Join returns ErrDeployment. To
	// change the name, see AdoptAs.
	//
	// Open warns (Logger) once, with or without a name, if another machine than this had the file open before. Only Linux tells.
	Deployment string

	// BusyTimeout is how long a commit waits for its turn while other processes
	// write; then it fails. 0: ten seconds.
	BusyTimeout time.Duration

	// CompressAbove is the size in bytes above which bodies of requests and answers are
	// compressed (zstd), by the goroutine that asks. 0: 4 KiB; negative: none is. What is
	// compressed is read whatever it is set to.
	CompressAbove int

	// Archive is written what Reap is about to shrink or remove, nil: nothing. It gets
	// whole lines, each a JSON object of one operation (RFC 8259, JSON lines) with its
	// times, its request and its answer; credentials are in none of them, since the
	// journal has none. Write is called by one goroutine at a time, and then Flush() error
	// and Sync() error, where the writer has them, before the operations go. Where one of
	// them fails, so does Reap, and nothing goes. What was being written then, or in a
	// crash, may be a torn line: the next one begins on a line of its own, so that a
	// reader passes over lines that are empty or no JSON. An operation may be in it twice, after a
	// crash for instance, or though it was kept in the end. The caller closes it, after
	// the Journal.
	Archive io.Writer
	// ArchiveBodies has the bodies in it too, in base64.
	ArchiveBodies bool

	// Existing has Open make nothing: where there is no file, it fails with fs.ErrNotExist, and
	// where the file has no journal in it, with ErrNotJournal. Without it, a path with a slip in
	// it is a new, empty journal.
	Existing bool

	// ReadOnly opens the journal for programs that look at it while its service runs, or does
	// not: Get, List, GetFlow, ListFlows, FindBy, Stats, Verify and Backup work, and everything
	// else returns ErrReadOnly. It implies Existing and NoMigration. No file is made, nor its
	// owner changed, the WAL is not moved, the sidecar is not written, no session is begun or
	// ended and nobody waits for it. Whatever the other options say is without effect. It needs
	// the permission to read the file, and its -shm where there is one.
	//
	// A Journal of it is no part of what other Opens of the file in this process share.
	// A file of a process that died is read as that left it; one with a -wal and without a -shm,
	// which only who writes can make again, is refused.
	ReadOnly bool

	// NoMigration has Open refuse, with journal.ErrVersion, a file with the schema of an
	// older release, which is migrated else, and is not read by the older release from
	// then on, and, with ErrNotJournal, a database of the application's that has no journal
	// yet. It is for programs that look at the file of somebody else's service.
	NoMigration bool

	// Committed is told of every commit that wrote something: how many requests it carried, and
	// how long it took to be durable. It is called by the goroutine that writes, which waits for
	// it: it has to return at once. nil: nobody is.
	Committed func(requests int, took time.Duration)

	// Logger is warned where the file lies on a file system that may not outlive the machine's
	// run or the container: in memory (tmpfs, ramfs), or in a container's own layer
	// (overlayfs), and of another machine (Deployment). Only Linux tells. nil: slog.Default().
	Logger *slog.Logger
	// Volatile says that such a file system is what is wanted, as in tests, and has nobody
	// warned. It changes nothing else.
	Volatile bool

	// ExternalCheckpointer leaves it to another program, such as Litestream, to move the
	// -wal file into the journal: we never do, not even on Close, and the file is not
	// removed. It grows until the other program does (Stats.WALBytes).
	ExternalCheckpointer bool
}

// Journal is a journal in a SQLite file. Open makes one. Its methods are safe for
// concurrent use.
type Journal struct {
	file   *file
	opts   Options
	closed atomic.Bool

	mu       sync.Mutex
	sessions map[*session]struct{} // neither ended nor lost
}

var (
	_ journal.Journal       = (*Journal)(nil)
	_ journal.ClockResetter = (*Journal)(nil)
)

// Open opens the journal in the file at path, and makes it where there is none; its
// directory must exist. The zero Options are the defaults. In a SQLite database of the
// application's it makes one beside the tables that are there. A file that is open in this
// process already is shared, with the options that it was first opened with. The
// caller closes the Journal.
//
// A journal that was restored or copied opens, and sends nothing until it is adopted:
// see Adopt.
//
// On a disk that is full it fails, and leaves nothing that is in the way of opening the file
// once there is space.
//
// Errors say what to do. Found by errors.Is: journal.ErrVersion for a file of a
// newer release, journal.ErrRestored for an older file beside the -wal of a newer one,
// ErrNotJournal, ErrNetworkFilesystem, ErrSecondName, ErrDeployment, and those of package os.
func Open(path string, opts Options) (*Journal, error) {
	f, err := acquire(path, opts)
	if err != nil {
		return nil, err
	}
	return &Journal{file: f, opts: opts, sessions: make(map[*session]struct{})}, nil
}

// Apply runs journal.Next on the operation that ev names, and returns once what
// comes of it is durable. EventDeliver is only noted: it is recorded by the next
// commit of anybody in this process, by the end of a session, or by Close, and its
// Result has no Operation. An event without its asker's clock is refused with a
// *journal.EventError. Where the context ends first, the event may be recorded.
func (j *Journal) Apply(ctx context.Context, ev journal.Event) (journal.Result, error) {
	if err := j.writable(ctx); err != nil {
		return journal.Result{}, err
	}
	if err := store.CheckApply(ev); err != nil {
		return journal.Result{}, err
	}
	if ev.Kind == journal.EventDeliver {
		return j.file.writer.deferDelivery(ctx, ev)
	}
	w := j.file.writer
	r := w.request()
	r.event = w.prepare(ev)
	answered, err := w.ask(ctx, r)
	if !answered {
		return journal.Result{}, err
	}
	defer w.free(r)
	if err != nil {
		return journal.Result{}, err
	}
	return r.out.result(j.file.path)
}

// Claim applies ev, of kind EventClaim, to at most limit operations that want one,
// oldest first. Where it passes over many, others may write meanwhile. Operations whose session has lost its file are
// passed over; where nothing else wants a claim they are reported by
// journal.ErrRestored.
func (j *Journal) Claim(ctx context.Context, ev journal.Event, limit int) ([]journal.Result, error) {
	if err := j.writable(ctx); err != nil {
		return nil, err
	}
	if err := store.CheckClaim(ev); err != nil {
		return nil, err
	}
	p := j.file.writer.prepare(ev)
	var outs []outcome
	for at := new(claiming); !at.done && len(outs) < limit; {
		var some []outcome
		next := new(claiming)
		err := j.file.writer.do(ctx, func(b *batch) (err error) {
			*next = *at
			some, err = b.claim(p, limit-len(outs), next)
			return err
		})
		if err == nil && next.done && len(outs)+len(some) == 0 {
			err = errors.Join(next.damaged, next.restored)
		}
		if err != nil && len(outs) == 0 {
			return nil, err
		}
		if err != nil {
			break // what was claimed before has to be known to its asker
		}
		outs, at = append(outs, some...), next
	}
	results := make([]journal.Result, 0, len(outs))
	for _, out := range outs {
		result, err := out.result(j.file.path)
		if err != nil {
			return results, err
		}
		results = append(results, result)
	}
	return results, nil
}

// Close flushes what rides on a commit to come, ends the writer with the last
// Journal of the file, moves the WAL into the file and removes it where no other
// process uses it. Sessions that were not ended count as died.
func (j *Journal) Close() error {
	if j.closed.Swap(true) {
		return journal.ErrClosed
	}
	j.mu.Lock()
	for s := range j.sessions {
		s.leave()
	}
	clear(j.sessions)
	j.mu.Unlock()
	return j.file.release()
}

func (j *Journal) open(ctx context.Context) error {
	if j.closed.Load() {
		return journal.ErrClosed
	}
	return ctx.Err()
}
