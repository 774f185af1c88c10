package format

import (
	"database/sql/driver"
	"time"

	"github.com/onceward/onceward/journal"
)

// Row is an operation as its row has it, without its answer and bodies, and with its
// request undecoded.
type Row struct {
	Op         journal.Operation // without Request and Answer
	Request    []byte
	Identified bool   // in the unique index, once it has a row of its own
	AnswerSum  uint32 // of its answer, 0 where there is none; once it has a row of its own
}

// What the columns of a row are read by panics with a *runtime.TypeAssertionError, as an
// assertion of the type does, where a column is of another one.

// ToTime reads a time, zero for NULL.
func ToTime(v driver.Value) time.Time {
	if v == nil {
		return time.Time{}
	}
	return time.UnixMilli(v.(int64)).UTC()
}

func toString(v driver.Value) string {
	if v == nil {
		return ""
	}
	return v.(string)
}

// ToBytes reads a BLOB, nil for NULL.
func ToBytes(v driver.Value) []byte {
	if v == nil {
		return nil
	}
	return v.([]byte)
}

// toByte returns 255 for a value that is no byte.
func toByte(v driver.Value) byte { return byte(min(uint64(v.(int64)), 255)) }

// Nullable is a text as a column has it: NULL for none.
func Nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}
