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
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/location"
	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
	"github.com/onceward/onceward/journal/sqlite/internal/schema"
)

var (
	// ErrNotJournal: the file is neither a journal nor a database in which one can be made.
	ErrNotJournal = schema.ErrNotJournal
	// ErrNetworkFilesystem: the file is on a network file system, on which WAL does not work
	// (https://sqlite.org/wal.html, "Overview").
	ErrNetworkFilesystem = osfile.ErrNetwork
	// ErrSecondName: the file, or one that belongs to it, has another name: it has several links, or is
	// mounted as a single file. Each name would have its own WAL, and neither would see the other's records.
	ErrSecondName = location.ErrSecondName
	// ErrDeployment: the journal belongs to another deployment than Options.Deployment, as in a staging
	// system started with a snapshot of production's volume. Nothing was recorded or sent.
	ErrDeployment = schema.ErrDeployment
	// ErrReadOnly: the journal was opened with Options.ReadOnly.
	ErrReadOnly = errors.New("sqlite: opened read-only")
)

// Options configure Open. The zero value is recommended.
type Options struct {
	// Deployment names the journal's owner, such as "prod", or "prod/payments-0" for a replica with a file of
	// its own. The first Open with a name records it in the file, and Backup copies it. From then on Open
	// with another name, or with none, returns ErrDeployment, because a copy of the whole folder looks like
	// the journal itself and would send the same operations. Empty means that no name is recorded or
	// required, and a file without a name opens. With ReadOnly or Existing a file of any deployment opens
	// without a name, and then Join returns ErrDeployment. To change the name, see AdoptAs.
	//
	// With or without a name, Open logs one warning (Logger) if another machine had the file open before.
	// Only Linux can detect that.
	Deployment string

	// BusyTimeout is how long a commit waits for its turn while other processes write, before it fails.
	// Default: ten seconds.
	BusyTimeout time.Duration

	// CompressAbove is the size in bytes above which bodies of requests and answers are compressed (zstd), by
	// the calling goroutine. Negative means no compression. Compressed bodies are readable with any setting.
	// Default: 4 KiB.
	CompressAbove int

	// Archive receives operations before Reap shrinks or removes them, and receipts before ReapReceipts removes
	// their answers. Nil means no archive. Each is one JSON object on one line (RFC 8259, JSON lines): a
	// journal.Archived, with its times, request and answer, or a journal.ArchivedReceipt. Credentials
	// are never in it, because the journal has none.
	//
	// One goroutine at a time calls Write, and then Flush() error and Sync() error if the writer has them,
	// before the operations are removed. If one of them fails, so does Reap, and nothing is removed. A
	// failure or a crash may leave a torn line. The next operation starts on a new line, so a reader can skip
	// lines that are empty or not JSON. An operation may appear twice, for example after a crash, or although
	// it was kept. The caller closes the writer, after the Journal.
	Archive io.Writer
	// ArchiveBodies adds the bodies to the archive, in base64.
	ArchiveBodies bool

	// Existing stops Open from making anything. Open returns fs.ErrNotExist if no file exists, and
	// ErrNotJournal if the file has no journal. Without it, a mistyped path becomes a new, empty journal.
	Existing bool

	// ReadOnly opens the journal for programs that read it, whether or not its service runs. Get, List,
	// GetFlow, ListFlows, FindBy, Stats, Verify and Backup work. All other methods return ErrReadOnly. It
	// implies Existing and NoMigration. It makes no file, changes no owner, does not move the WAL, does not
	// write the sidecar, and starts or ends no session. No process waits for it. Other options have no
	// effect. It needs the permission to read the file, and its -shm if there is one.
	//
	// Such a Journal is not shared with other Opens of the file in this process. A dead process's file is
	// read in its last state. A file with a -wal but no -shm is rejected, because only a writer can make the
	// -shm again.
	ReadOnly bool

	// NoMigration makes Open return journal.ErrVersion for a file with the schema of an older release, and
	// ErrNotJournal for an application's database without a journal. Without it, Open migrates such a file,
	// which the older release can no longer read. It is for programs that read another service's file.
	NoMigration bool

	// Committed, if not nil, is called after every commit that wrote something, with the number of its
	// requests and the time until it was durable. The writing goroutine calls it and waits for it, so it must
	// return at once.
	Committed func(requests int, took time.Duration)

	// Logger receives a warning if the file is on a file system that may not outlive the machine's run or the
	// container (tmpfs, ramfs, or overlayfs of a container), or if it comes from another machine (see
	// Deployment). Only Linux can detect these. Default: slog.Default().
	Logger *slog.Logger
	// Volatile accepts such a file system without a warning, as in tests. It changes nothing else.
	Volatile bool

	// ExternalCheckpointer lets another program, such as Litestream, move the -wal file into the journal.
	// This package then never moves it, not even on Close, and does not remove it. It grows until the other
	// program moves it (Stats.WALBytes).
	ExternalCheckpointer bool
}

// logJournal is a Journal whose rows are in blocks and in a log.
type logJournal struct {
	file   *file
	place  *place // nil: the file is read alone
	opts   Options
	closed atomic.Bool

	mu       sync.Mutex
	sessions map[*session]struct{} // neither ended nor lost
}

var (
	_ journal.Journal       = (*logJournal)(nil)
	_ journal.ClockResetter = (*logJournal)(nil)
)

func openLog(path string, opts Options) (*logJournal, error) {
	if opts.ReadOnly {
		f, err := openReadOnly(path, opts)
		if err != nil {
			return nil, err
		}
		return newLogJournal(f, nil, opts), nil
	}
	p, err := acquire(path, opts, func(real string) (opened, error) { return openFile(real, opts) })
	if err != nil {
		return nil, err
	}
	return newLogJournal(p.file.(*file), p, opts), nil
}

func newLogJournal(f *file, p *place, opts Options) *logJournal {
	return &logJournal{file: f, place: p, opts: opts, sessions: make(map[*session]struct{})}
}

// Apply runs journal.Next on the operation that ev names, and returns once the result is durable.
// EventDeliver is only noted: the next commit of this process, the end of a session, or Close records it, and
// its Result has no Operation. Apply returns a *journal.EventError for an event without its asker's clock. If
// the context ends first, the event may be recorded.
func (j *logJournal) Apply(ctx context.Context, ev journal.Event) (journal.Result, error) {
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
	w.prepareIn(&r.event, ev)
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

// Claim applies ev, of kind EventClaim, to at most limit operations that need a claim, oldest first. While it
// skips many operations, others may write. It skips operations whose session has lost its file. If it finds
// nothing else, it returns journal.ErrRestored for them.
func (j *logJournal) Claim(ctx context.Context, ev journal.Event, limit int) ([]journal.Result, error) {
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
			break // the caller must get the earlier claims
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

// Close records the noted events. With the last Journal of the file it ends the writer, moves the WAL
// into the file, and removes the WAL if no other process uses it. Sessions that were not ended count as dead.
func (j *logJournal) Close() error {
	if j.closed.Swap(true) {
		return journal.ErrClosed
	}
	j.mu.Lock()
	for s := range j.sessions {
		s.leave()
	}
	clear(j.sessions)
	j.mu.Unlock()
	if j.place == nil {
		return conn.Explain(j.file.path, "close", j.file.readers.Close())
	}
	return j.place.release()
}

func (j *logJournal) open(ctx context.Context) error {
	if j.closed.Load() {
		return journal.ErrClosed
	}
	return ctx.Err()
}
