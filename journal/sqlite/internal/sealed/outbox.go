// Package sealed reads and seals the rows beside the operations: of the outbox, sweeps, receipts, marks and contents.
//
// It knows their columns and sums. It must not know when a row is written, or what follows from it.
package sealed

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

// These are the kinds of an outbox row.
const (
	Operation = iota + 1 // an operation as it became, whole
	Delivery             // its outcome was delivered
	Alias                // an operation of the same transaction has this second name
)

// Outbox is a row of the outbox, as it is stored.
type Outbox struct {
	Kind, Handle int64
	Ref          journal.Ref
	Record       []byte
}

// OutboxColumns are what ReadOutbox reads.
const OutboxColumns = "seq, kind, handle, scope, parent, id, record"

// Sum returns the sum of the row.
func (r Outbox) Sum() uint32 {
	return format.Sum(fmt.Appendf(append([]byte{}, r.Record...), "%d %d %q %q %q", r.Kind, r.Handle, r.Ref.Scope, r.Ref.Parent, r.Ref.ID))
}

// ReadOutbox reads OutboxColumns, and returns format.ErrDamaged for a row that is not as it was written.
func ReadOutbox(v []driver.Value) (seq int64, r Outbox, err error) {
	r = Outbox{Kind: v[1].(int64), Handle: v[2].(int64), Ref: journal.Ref{Scope: v[3].(string), Parent: v[4].(string), ID: v[5].(string)}}
	sealed := v[6].([]byte)
	n := len(sealed) - format.SumSize
	if n < 0 {
		return 0, r, format.ErrDamaged
	}
	if r.Record = sealed[:n:n]; format.SumIn(sealed) != r.Sum() {
		return 0, r, format.ErrDamaged
	}
	return v[0].(int64), r, nil
}

// Operation decodes the new state of an operation.
func (r Outbox) Operation() (k *format.Record, err error) {
	_, err = format.EachRecord(r.Record, 0, func(int64) *format.Record { return nil }, func(is *format.Record) error {
		k = is
		return nil
	})
	if err == nil && (k == nil || k.Op.Handle != r.Handle || k.Op.Ref != r.Ref) {
		err = format.ErrDamaged
	}
	return k, err
}

// Delivered is the record of an EventDeliver.
type Delivered struct {
	At         int64         `json:"at"`
	Generation int           `json:"generation"`
	Outcome    journal.State `json:"outcome"`
	Attention  string        `json:"attention,omitempty"`
}

// Delivery is the event that the row is of.
func (r Outbox) Delivery() (journal.Event, error) {
	var d Delivered
	if err := json.Unmarshal(r.Record, &d); err != nil {
		return journal.Event{}, fmt.Errorf("%w: %w", format.ErrDamaged, err)
	}
	return journal.Event{
		Kind: journal.EventDeliver, Ref: r.Ref, Handle: r.Handle, At: time.UnixMilli(d.At).UTC(), Generation: d.Generation, Outcome: d.Outcome, Attention: d.Attention,
	}, nil
}

// InsertOutbox inserts all of the rows, or none.
func InsertOutbox(ctx context.Context, tx *sql.Tx, rows ...Outbox) error {
	var args []any
	for _, r := range rows {
		sealed := binary.LittleEndian.AppendUint32(append([]byte{}, r.Record...), r.Sum())
		args = append(args, r.Kind, r.Handle, r.Ref.Scope, r.Ref.Parent, r.Ref.ID, sealed)
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO onceward_outbox (kind, handle, scope, parent, id, record) VALUES (?, ?, ?, ?, ?, ?)"+
		strings.Repeat(", (?, ?, ?, ?, ?, ?)", len(rows)-1), args...)
	return err
}

// OutboxWhere reads the rows that where selects, in their order, as tx sees them.
func OutboxWhere(ctx context.Context, tx *sql.Tx, where string, args ...any) (list []Outbox, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT "+OutboxColumns+" FROM onceward_outbox WHERE "+where+" ORDER BY seq", args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		v, into := make([]any, 7), make([]any, 7)
		for i := range v {
			into[i] = &v[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		values := make([]driver.Value, len(v))
		for i := range v {
			values[i] = v[i]
		}
		err := conn.Take(func(values []driver.Value) error {
			_, row, err := ReadOutbox(values)
			list = append(list, row)
			return err
		}, values)
		if err != nil {
			return nil, err
		}
	}
	return list, rows.Err()
}

// IsMark reports whether the row is a mark, which has no operation, and the clock that it tells.
func (r Outbox) IsMark() (at time.Time, is bool) {
	if r.Kind != Alias || r.Handle != 0 || len(r.Record) != 8 {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(binary.LittleEndian.Uint64(r.Record))).UTC(), true
}
