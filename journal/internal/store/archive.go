package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/onceward/onceward/journal"
)

// Archive writes what is about to be reaped. It may be used concurrently.
type Archive struct {
	mu     sync.Mutex
	to     io.Writer
	bodies bool
	torn   bool // it may end in the middle of a line
}

// NewArchive has a writer get a line for each operation (journal.ArchivedOf) and receipt, with the bodies or without.
func NewArchive(to io.Writer, bodies bool) *Archive {
	return &Archive{to: to, bodies: bodies, torn: mayBeTorn(to)}
}

// mayBeTorn tells whether a file may end in a line that a crash has torn. Other writers
// are taken to be at the beginning of one.
func mayBeTorn(to io.Writer) bool {
	f, ok := to.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	again, err := os.Open(f.Name()) // it may be open for writing alone
	if err != nil {
		return true
	}
	defer again.Close()
	last := make([]byte, 1)
	if there, err := again.Stat(); err != nil || !os.SameFile(info, there) {
		return true
	}
	_, err = again.ReadAt(last, info.Size()-1)
	return err != nil || last[0] != '\n'
}

// Write returns the operations after it has written them and, if the writer can do that, flushed and synced them. An
// operation that has changed since is not removed.
func (a *Archive) Write(ops []journal.Operation) (Archived, error) {
	archived := make(Archived, len(ops))
	for _, op := range ops {
		archived[op.Handle] = op
	}
	if len(ops) == 0 {
		return archived, nil
	}
	lines := make([]any, len(ops))
	for i := range ops {
		lines[i] = journal.ArchivedOf(&ops[i], a.bodies)
	}
	if err := a.write(lines); err != nil {
		return nil, err
	}
	return archived, nil
}

// ReceiptLines are lines of receipts that are about to be reaped.
type ReceiptLines []any

// Add adds a receipt that has an answer, unless there is no archive.
func (l *ReceiptLines) Add(a *Archive, r *journal.Receipt) {
	if a != nil && r.Answer != nil {
		*l = append(*l, journal.ArchivedReceiptOf(r, a.bodies))
	}
}

// WriteReceipts returns as Write does, once the lines are written.
func (a *Archive) WriteReceipts(lines ReceiptLines) error {
	if len(lines) == 0 {
		return nil
	}
	return a.write(lines)
}

func (a *Archive) write(each []any) error {
	if err := a.writeLines(each); err != nil {
		return fmt.Errorf("operations that could not be archived are not reaped: %w", err)
	}
	return nil
}

func (a *Archive) writeLines(each []any) error {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	encoder.SetEscapeHTML(false)
	for _, line := range each {
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	text := lines.Bytes()
	if a.torn {
		text = append([]byte{'\n'}, text...)
	}
	a.torn = true
	if n, err := a.to.Write(text); err != nil {
		return err
	} else if n < len(text) {
		return io.ErrShortWrite
	}
	a.torn = false
	if flusher, ok := a.to.(interface{ Flush() error }); ok {
		if err := flusher.Flush(); err != nil {
			return err
		}
	}
	if syncer, ok := a.to.(interface{ Sync() error }); ok {
		return syncer.Sync()
	}
	return nil
}

// Archived are operations as they were when they were archived, by handle. nil are all:
// there is no archive.
type Archived map[int64]journal.Operation

// Has tells whether the operation is as it was archived.
func (r Archived) Has(op *journal.Operation) bool {
	if r == nil {
		return true
	}
	was, ok := r[op.Handle]
	return ok && was.State == op.State && was.Claim == op.Claim && was.SecondEffects == op.SecondEffects && was.UpdatedAt.Equal(op.UpdatedAt)
}
