package format

import (
	"database/sql/driver"
	"time"
)

// A column's value panics with a *runtime.TypeAssertionError, like a type assertion, if the column has another type.

// ToTime reads a time, zero for NULL.
func ToTime(v driver.Value) time.Time {
	if v == nil {
		return time.Time{}
	}
	return time.UnixMilli(v.(int64)).UTC()
}

// ToBytes reads a BLOB, nil for NULL.
func ToBytes(v driver.Value) []byte {
	if v == nil {
		return nil
	}
	return v.([]byte)
}

// Nullable is a text as a column has it: NULL for none.
func Nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}
