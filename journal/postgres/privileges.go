package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal/postgres/internal/check"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
)

// checkGrants rejects, once, a role that lacks a privilege, before there is something to record.
func (j *Journal) checkGrants(ctx context.Context, conn *pgx.Conn) error {
	if j.granted.Load() {
		return nil
	}
	var g check.Grants
	need := func(of string, all ...string) { g.Need(of, all...) }
	if j.opts.ReadOnly {
		need = func(of string, _ ...string) { g.Need(of, "SELECT") }
	}
	need(j.schema+".journal", "SELECT", "UPDATE")
	for _, table := range [...]string{"sessions", "lanes", "operations", "requests", "answers", "leases", "marks", "heard", "flows", "flow_steps"} {
		need(j.schema+"."+table, "SELECT", "INSERT", "UPDATE", "DELETE")
	}
	need("SEQUENCE "+j.schema+".handles", "USAGE", "SELECT")
	lacks, err := g.Lacking(ctx, conn)
	switch {
	case err != nil:
		return err
	case lacks != "":
		return lacksGrant("open", lacks)
	}
	j.granted.Store(true)
	return nil
}

func lacksGrant(doing, what string) error {
	return &Error{Doing: doing, Code: pgerr.LacksPrivilege, Reason: "the role lacks " + what + ": have the owner GRANT it"}
}

// warnOfLoss warns once of a failover that loses commits, unless Options accept it.
func (j *Journal) warnOfLoss() {
	if j.awaited.Load() || j.opts.Existing || j.opts.Unsafe || j.opts.Durability != ServersDisk || j.opts.Failover != FailoverUnknown {
		return
	}
	j.log.Warn("onceward: commits wait for no standby (synchronous_standby_names is empty): if this server is lost, so are its last commits, " +
		"and nothing is sent until an operator adopts the journal. Set Options.Failover if this is intended")
}
