package sqlite

import (
	"database/sql/driver"
	"time"

	sqlite "modernc.org/sqlite"
)

// Statements of tests seal what they write as the journal does: sealed_log(records, seq,
// last_at, jumped_at, least_margin, newest, folded, number) and sealed_segment(hashes, first,
// began_at, spent) replace the sum that the last four bytes are.
func init() {
	unsealed := func(v driver.Value) []byte {
		b := v.([]byte)
		return append([]byte(nil), b[:len(b)-sumSize]...)
	}
	sqlite.MustRegisterDeterministicScalarFunction("sealed_log", 8, func(_ *sqlite.FunctionContext, v []driver.Value) (driver.Value, error) {
		row := logRow{v[1].(int64), toTime(v[2]), toTime(v[3]), time.Duration(v[4].(int64)), v[5].(int64), v[6].(int64), v[7].(int64)}
		return row.seal(unsealed(v[0])), nil
	})
	sqlite.MustRegisterDeterministicScalarFunction("sealed_segment", 4, func(_ *sqlite.FunctionContext, v []driver.Value) (driver.Value, error) {
		return segment{v[1].(int64), toTime(v[2]), v[3].(int64) == 1}.seal(unsealed(v[0])), nil
	})
}
