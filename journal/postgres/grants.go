package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// lacksPrivilege and noSuchFunction are SQLSTATEs.
const lacksPrivilege, noSuchFunction = "42501", "42883"

// checkGrants refuses, once, a role that lacks what it needs, so that it does not turn out when something is to be
// recorded.
func (j *Journal) checkGrants(ctx context.Context, conn *pgx.Conn) error {
	if j.granted.Load() {
		return nil
	}
	var tables, privileges []string
	need := func(table string, all ...string) {
		for _, privilege := range all {
			tables, privileges = append(tables, j.schema+"."+table), append(privileges, privilege)
		}
	}
	need("journal", "SELECT", "UPDATE")
	for _, table := range [...]string{"sessions", "lanes", "operations", "requests", "answers", "leases", "marks", "heard", "flows", "flow_steps"} {
		need(table, "SELECT", "INSERT", "UPDATE", "DELETE")
	}
	sequence := []string{"USAGE", "SELECT"}
	if j.opts.ReadOnly {
		for i := range privileges {
			privileges[i] = "SELECT"
		}
		sequence = sequence[1:]
	}
	var lacks *string
	// What is not there is for the schema's version to say.
	err := conn.QueryRow(ctx, `SELECT string_agg(lack, ', ') FROM (
		SELECT DISTINCT p || ' ON ' || t AS lack FROM unnest($1::text[], $2::text[]) n (t, p) WHERE NOT has_table_privilege(to_regclass(t), p)
		UNION ALL SELECT p || ' ON SEQUENCE ' || $3 FROM pg_catalog.unnest($4::text[]) s (p) WHERE NOT has_sequence_privilege(to_regclass($3), p)) l`,
		tables, privileges, j.schema+".handles", sequence).Scan(&lacks)
	switch {
	case code(err) == noSuchFunction: // another engine's
	case err != nil:
		return err
	case lacks != nil:
		return lacksGrant(*lacks)
	}
	j.granted.Store(true)
	return nil
}

func lacksGrant(what string) error {
	return &Error{Doing: "open", Code: lacksPrivilege, Reason: "the role lacks " + what + ": have the owner GRANT it"}
}

// warnOfLoss tells whoever has not said that it is known.
func (j *Journal) warnOfLoss() {
	if j.awaited.Load() || j.opts.Existing || j.opts.Unsafe || j.opts.Durability != ServersDisk || j.opts.Failover != FailoverUnknown {
		return
	}
	j.log.Warn("onceward: commits wait for no standby (synchronous_standby_names is empty): where this server is lost, so are the last of what was acknowledged, " +
		"and the journal refuses to send until somebody adopts it; Options.Failover says that this is known")
}
