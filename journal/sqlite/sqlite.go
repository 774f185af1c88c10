package sqlite

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/journal"
)

var (
	// ErrNotJournal: the file is not a journal.
	ErrNotJournal = errors.New("sqlite: not a journal")
	// ErrNetworkFilesystem: the file lies on a file system over a network, on which
	// WAL does not work (https://sqlite.org/wal.html, "Overview").
	ErrNetworkFilesystem = errors.New("sqlite: network file system")
)

// Options say how a journal is opened. The zero value is what is recommended.
type Options struct {
	// BusyTimeout is how long a commit waits for its turn while other processes
	// write; then it fails. 0: ten seconds.
	BusyTimeout time.Duration
}

// Journal is a journal in a SQLite file. Open makes one. Its methods are safe for
// concurrent use.
type Journal struct {
	file   *file
	closed atomic.Bool

	mu       sync.Mutex
	sessions map[*session]struct{} // neither ended nor lost
}

var _ journal.Journal = (*Journal)(nil)

// Open opens the journal in the file at path, and makes it where there is none; its
// directory must exist. nil options are the defaults. A file that is open in this
// process already is shared, with the options that it was first opened with. The
// caller closes the Journal.
//
// A journal that was restored or copied opens, and sends nothing until it is adopted:
// see Adopt.
//
// Errors say what to do. Found by errors.Is: journal.ErrVersion for a file of a
// newer release, ErrNotJournal, ErrNetworkFilesystem, and those of package os.
func Open(path string, opts *Options) (*Journal, error) {
	if opts == nil {
		opts = new(Options)
	}
	f, err := acquire(path, *opts)
	if err != nil {
		return nil, err
	}
	return &Journal{file: f, sessions: make(map[*session]struct{})}, nil
}

// Apply runs journal.Next on the operation that ev names, and returns once what
// comes of it is durable. EventDeliver is only noted: it is recorded by the next
// commit of anybody in this process, by the end of a session, or by Close, and its
// Result has no Operation. An event without its asker's clock is refused with a
// *journal.EventError. Where the context ends first, the event may be recorded.
func (j *Journal) Apply(ctx context.Context, ev journal.Event) (journal.Result, error) {
	if err := j.open(ctx); err != nil {
		return journal.Result{}, err
	}
	if ev.At.IsZero() {
		return journal.Result{}, &journal.EventError{Kind: ev.Kind, Reason: "needs the asker's clock"}
	}
	if ev.Kind == journal.EventDeliver {
		return j.file.writer.ride(ctx, ev)
	}
	prepared := prepare(ev)
	var out outcome
	err := j.file.writer.do(ctx, func(b *batch) (err error) {
		out, err = b.apply(prepared)
		return err
	})
	if err != nil {
		return journal.Result{}, err
	}
	return out.result(j.file.path)
}

// Claim applies ev, of kind EventClaim, to at most limit operations that want one,
// in one commit, oldest first. Operations whose session has lost its file are
// passed over; where nothing else wants a claim they are reported by
// journal.ErrRestored.
func (j *Journal) Claim(ctx context.Context, ev journal.Event, limit int) ([]journal.Result, error) {
	if err := j.open(ctx); err != nil {
		return nil, err
	}
	if ev.Kind != journal.EventClaim || ev.At.IsZero() {
		return nil, &journal.EventError{Kind: ev.Kind, Reason: "Claim needs a claim and the asker's clock"}
	}
	var outs []outcome
	err := j.file.writer.do(ctx, func(b *batch) (err error) {
		outs, err = b.claim(prepare(ev), limit)
		return err
	})
	if err != nil {
		return nil, err
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
