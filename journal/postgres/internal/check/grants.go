package check

import (
	"context"

	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
)

// Grants are privileges that a role needs.
type Grants struct{ tables, privileges []string }

// Need adds privileges on a table, or on a sequence whose name follows the word SEQUENCE.
func (g *Grants) Need(table string, all ...string) {
	for _, privilege := range all {
		g.tables, g.privileges = append(g.tables, table), append(g.privileges, privilege)
	}
}

// Lacking returns the missing privileges of the role, or "".
func (g *Grants) Lacking(ctx context.Context, conn RowReader) (lacks string, err error) {
	// The schema's version reports missing tables.
	err = conn.QueryRow(ctx, `SELECT coalesce(string_agg(lack, ', '), '') FROM (
		SELECT DISTINCT p || ' ON ' || t AS lack FROM unnest($1::text[], $2::text[]) n (t, p)
		WHERE NOT CASE WHEN t LIKE 'SEQUENCE %' THEN has_sequence_privilege(to_regclass(substr(t, 10)), p) ELSE has_table_privilege(to_regclass(t), p) END) l`,
		g.tables, g.privileges).Scan(&lacks)
	if pgerr.Code(err) == pgerr.NoSuchFunction { // another engine's
		err = nil
	}
	return lacks, err
}
