package check

import (
	"context"

	"github.com/onceward/onceward/journal/internal/leased"
)

// PlaceOf returns where a table lies. It asks for each part by itself. A part is "" if the engine lacks the function, or the role may not call it.
func PlaceOf(ctx context.Context, conn RowReader, table string) leased.Place {
	one := func(sql string, args ...any) (value string) {
		if conn.QueryRow(ctx, sql, args...).Scan(&value) != nil {
			return ""
		}
		return value
	}
	return leased.Place{
		System:   one("SELECT system_identifier::text FROM pg_control_system()"),
		Database: one("SELECT oid::bigint::text FROM pg_database WHERE datname = current_database()"),
		Table:    one("SELECT to_regclass($1)::oid::bigint::text", table),
		Timeline: one("SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)"),
	}
}
