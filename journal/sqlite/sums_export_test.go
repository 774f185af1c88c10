package sqlite

import (
	"database/sql/driver"
	"encoding/binary"
	"time"

	sqlite "modernc.org/sqlite"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/sealed"
)

// SQL functions for tests seal rows as the journal does, by replacing the sum in the last four bytes:
// sealed_log(records, seq, last_at, jumped_at, least_margin, newest, folded, number), sealed_segment(hashes, first,
// began_at, spent) and sealed_outbox(record, kind, handle, scope, parent, id).
func init() {
	unsealed := func(v driver.Value) []byte {
		b := v.([]byte)
		return append([]byte(nil), b[:len(b)-format.SumSize]...)
	}
	sqlite.MustRegisterDeterministicScalarFunction("sealed_log", 8, func(_ *sqlite.FunctionContext, v []driver.Value) (driver.Value, error) {
		row := format.LogRow{
			Seq: v[1].(int64), Last: format.ToTime(v[2]), Jumped: format.ToTime(v[3]), LeastMargin: time.Duration(v[4].(int64)),
			Newest: v[5].(int64), Folded: v[6].(int64), Number: v[7].(int64),
		}
		return row.Seal(unsealed(v[0])), nil
	})
	sqlite.MustRegisterDeterministicScalarFunction("sealed_segment", 4, func(_ *sqlite.FunctionContext, v []driver.Value) (driver.Value, error) {
		return format.Segment{First: v[1].(int64), Began: format.ToTime(v[2]), Spent: v[3].(int64) == 1}.Seal(unsealed(v[0])), nil
	})
	sqlite.MustRegisterDeterministicScalarFunction("sealed_outbox", 6, func(_ *sqlite.FunctionContext, v []driver.Value) (driver.Value, error) {
		r := sealed.Outbox{
			Kind: v[1].(int64), Handle: v[2].(int64), Record: unsealed(v[0]),
			Ref: journal.Ref{Scope: v[3].(string), Parent: v[4].(string), ID: v[5].(string)},
		}
		return binary.LittleEndian.AppendUint32(r.Record, r.Sum()), nil
	})
}
