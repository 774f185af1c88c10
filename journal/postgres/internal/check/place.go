package check

import (
	"cmp"
	"context"
)

// Place is where the journal lies. A part that the engine does not have is "".
type Place struct{ System, Database, Table, Timeline string }

// Or returns p, with the earlier values of the parts that are unknown now.
func (p Place) Or(was Place) Place {
	return Place{cmp.Or(p.System, was.System), cmp.Or(p.Database, was.Database), cmp.Or(p.Table, was.Table), cmp.Or(p.Timeline, was.Timeline)}
}

// Differs reports whether a part has changed. A part that an engine can't tell has not.
func Differs(was *string, is string) bool { return was != nil && *was != "" && is != "" && *was != is }

// PlaceOf asks for each part by itself. A part is "" if the engine lacks the function, or the role may not call it.
func PlaceOf(ctx context.Context, conn RowReader, schema string) Place {
	one := func(sql string, args ...any) (value string) {
		if conn.QueryRow(ctx, sql, args...).Scan(&value) != nil {
			return ""
		}
		return value
	}
	return Place{
		System:   one("SELECT system_identifier::text FROM pg_control_system()"),
		Database: one("SELECT oid::bigint::text FROM pg_database WHERE datname = current_database()"),
		Table:    one("SELECT to_regclass($1)::oid::bigint::text", schema+".operations"),
		Timeline: one("SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)"),
	}
}
