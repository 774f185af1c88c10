package sqlite

import (
	"bytes"
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/format"
)

// archive writes what is about to be reaped.
type archive struct {
	mu     sync.Mutex
	to     io.Writer
	bodies bool
	torn   bool // it may end in the middle of a line
}

func newArchive(to io.Writer, bodies bool) *archive {
	return &archive{to: to, bodies: bodies, torn: mayBeTorn(to)}
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

// archived is a line of the archive. Its names are promised; there may be more of them
// in later releases.
type archived struct {
	Scope    string `json:"scope,omitempty"`
	Parent   string `json:"parent,omitempty"`
	ID       string `json:"id"`
	Naming   string `json:"naming"`
	Provider string `json:"provider,omitempty"`
	Endpoint string `json:"endpoint,omitempty"`

	Key         string `json:"key,omitempty"`
	Generation  int    `json:"generation"`
	Fingerprint string `json:"fingerprint,omitempty"`

	State         string    `json:"state"`
	Cause         string    `json:"cause,omitempty"`
	Attempts      int       `json:"attempts"`
	SecondEffects int       `json:"second_effects,omitempty"`
	CreatedAt     time.Time `json:"created_at"`
	FirstSentAt   time.Time `json:"first_sent_at,omitzero"`
	SettledAt     time.Time `json:"settled_at"`

	Request archivedRequest `json:"request"`
	Answer  *archivedAnswer `json:"answer,omitempty"`
}

type archivedRequest struct {
	Method string      `json:"method"`
	URL    string      `json:"url"`
	Host   string      `json:"host,omitempty"`
	Header http.Header `json:"header,omitempty"`
	Body   []byte      `json:"body,omitempty"` // base64
}

type archivedAnswer struct {
	Generation int         `json:"generation"`
	Status     int         `json:"status,omitempty"`
	Header     http.Header `json:"header,omitempty"`
	Body       []byte      `json:"body,omitempty"` // base64
	Omitted    bool        `json:"omitted,omitempty"`
	Cut        bool        `json:"cut,omitempty"`
	Refused    bool        `json:"refused,omitempty"`
	Pointer    string      `json:"pointer,omitempty"`
	ByHand     bool        `json:"by_hand,omitempty"`
}

func (a *archive) line(op *journal.Operation) archived {
	line := archived{
		Scope: op.Scope, Parent: op.Parent, ID: op.ID, Naming: op.Naming.String(), Provider: op.Provider, Endpoint: op.Endpoint,
		Key: op.Key, Generation: op.Generation, Fingerprint: op.Fingerprint,
		State: op.State.String(), Cause: op.Cause, Attempts: op.Attempts, SecondEffects: op.SecondEffects,
		CreatedAt: op.CreatedAt, FirstSentAt: op.FirstSentAt, SettledAt: op.SettledAt,
		Request: archivedRequest{Method: op.Request.Method, URL: op.Request.URL, Host: op.Request.Host, Header: op.Request.Header},
	}
	if r := op.Answer; r != nil {
		line.Answer = &archivedAnswer{
			Generation: r.Generation, Status: r.Status, Header: r.Header, Omitted: r.Omitted, Cut: r.Cut, Refused: r.Refused,
			Pointer: r.Pointer, ByHand: r.ByHand,
		}
	}
	if a.bodies {
		line.Request.Body = op.Request.Body
		if op.Answer != nil {
			line.Answer.Body = op.Answer.Body
		}
	}
	return line
}

// write returns once the operations are written and, where the writer can do that,
// flushed and synced.
func (a *archive) write(ops []journal.Operation) error {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	encoder.SetEscapeHTML(false)
	for i := range ops {
		if err := encoder.Encode(a.line(&ops[i])); err != nil {
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

// archivedSet are operations as they were when they were archived, by handle. nil are all:
// there is no archive.
type archivedSet map[int64]journal.Operation

// has tells whether the operation is as it was archived.
func (r archivedSet) has(op *journal.Operation) bool {
	if r == nil {
		return true
	}
	was, ok := r[op.Handle]
	return ok && was.State == op.State && was.Claim == op.Claim && was.SecondEffects == op.SecondEffects && was.UpdatedAt.Equal(op.UpdatedAt)
}

// archive writes those of the operations with a row of their own, and of those in
// blocks, that ev would reap, at most limit.
func (j *Journal) archive(ctx context.Context, ev journal.Event, blocks, handles []int64, limit int) (archivedSet, error) {
	if j.file.archive == nil {
		return nil, nil
	}
	var ops []journal.Operation
	take := func(op journal.Operation, err error) error {
		if err != nil || len(ops) == limit {
			return err
		}
		if _, decision, _ := journal.Next(op, false, ev); decision == journal.Recorded {
			ops = append(ops, op)
		}
		return nil
	}
	err := j.file.readers.read(ctx, func(r *reader) error {
		for _, first := range blocks {
			err := r.each("SELECT first, data FROM onceward_blocks WHERE first = ?", func(v []driver.Value) error {
				data, _ := v[1].([]byte)
				return format.EachOfBlock(first, data, format.All, func(k *format.Record) error { return take(k.Operation()) })
			}, first)
			if err != nil {
				return err
			}
		}
		for _, handle := range handles {
			op, found, err := getRow(r, "o.handle = ?", handle)
			if !found && err == nil {
				continue
			}
			if err := take(op, err); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	archived := make(archivedSet, len(ops))
	for _, op := range ops {
		archived[op.Handle] = op
	}
	if len(ops) == 0 {
		return archived, nil
	}
	if err := j.file.archive.write(ops); err != nil {
		return nil, fmt.Errorf("journal %s: nothing is reaped that is not archived: %w", j.file.path, err)
	}
	return archived, nil
}
