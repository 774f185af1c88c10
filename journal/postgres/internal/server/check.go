package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal/internal/fleet"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
	"github.com/onceward/onceward/journal/postgres/internal/schema"
)

// Check implements fleet.Conn. After Check, the guard lets the process commit on the server, until the server restarts or
// another takes its place.
func (c *Conn) Check(ctx context.Context) error {
	s := c.s
	if s.opts.Pooled {
		if err := checkText(ctx, c.Conn); err != nil {
			return err
		}
	}
	started, err := startOf(ctx, c.Conn)
	if err != nil {
		return err
	}
	if err := s.checkServer(ctx, c.Conn); err != nil {
		return err
	}
	if err := s.fleet.CheckJournal(ctx, c); err != nil {
		return err
	}
	if again, err := startOf(ctx, c.Conn); err != nil {
		return err
	} else if !again.Equal(started) { // behind a pooler
		return errMoved
	}
	s.started.Store(&started)
	return nil
}

var errMoved = errors.New("postgres: another server took the place of the one that was checked")

// ErrDeployment is postgres.ErrDeployment.
var ErrDeployment = errors.New("postgres: the journal of another deployment")

// Sight implements fleet.Conn.
func (c *Conn) Sight(ctx context.Context, member string) (is fleet.Sighting, err error) {
	s := c.s
	var there bool
	err = c.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", s.schema+".journal").Scan(&there)
	switch {
	case pgerr.Code(err) == pgerr.LacksPrivilege:
		return is, pgerr.Lacks("USAGE ON SCHEMA " + s.schema)
	case err != nil:
		return is, err
	case !there:
		return is, schema.ErrNoJournal
	}
	if err := s.checkGrants(ctx, c.Conn); err != nil {
		return is, err
	}
	var version, leastWriter int
	err = c.QueryRow(ctx, s.in("SELECT schema_version, least_writer FROM {{s}}.journal")).Scan(&version, &leastWriter)
	if errors.Is(err, pgx.ErrNoRows) {
		return is, schema.ErrNoRow
	}
	if err == nil {
		err = schema.Check(version, leastWriter)
	}
	if err == nil {
		err = s.checkTables(ctx, c.Conn)
	}
	if err != nil {
		return is, err
	}
	var identity string
	var key []byte
	var next, highest int64
	handles := ", (SELECT last_value + 1023 FROM {{s}}.handles), (SELECT coalesce(max(handle), 0) FROM {{s}}.operations)"
	if s.Identity != "" { // the heart would wait for a lock on operations; what it remembers shows a lack
		handles = ", 0, 0"
	}
	is.Journal, err = c.read(ctx, ", id, key, coalesce(deployment, ''), (SELECT beats FROM {{s}}.sessions WHERE id = $1)"+handles,
		[]any{member}, &identity, &key, &is.Deployment, &is.Beats, &next, &highest)
	if err == nil && s.Identity == "" { // it is opened
		s.Identity = identity
		s.Key, err = schema.Key(key)
	}
	if next < highest {
		is.Because = fmt.Sprintf("the sequence of handles is at %d, and %d is taken", next, highest)
	}
	is.Place = s.Place(ctx, c)
	return is, err
}

// Moved implements fleet.Conn.
func (c *Conn) Moved(ctx context.Context, seen fleet.Sighting) (why string, err error) {
	is := seen.Place
	c.s.timeline.Store(&is.Timeline)
	var system, database, table, timeline *string
	err = c.QueryRow(ctx, c.s.in("SELECT system_identifier, database_oid, table_oid, timeline FROM {{s}}.journal")).Scan(&system, &database, &table, &timeline)
	switch {
	case err != nil:
		return "", err
	case system == nil: // it is opened for the first time
		return "", c.stamp(ctx, is, "AND system_identifier IS NULL")
	case leased.Differs(system, is.System):
		why = "it lies on another server than before"
	case leased.Differs(database, is.Database):
		why = "it lies in another database than before"
	case leased.Differs(table, is.Table):
		why = "its tables were made anew, as by pg_restore"
	case !leased.Differs(timeline, is.Timeline):
	case c.s.opts.Promotable:
		err = c.stamp(ctx, is, "")
	case c.s.opts.Existing:
		why = "the server was promoted, and no process of the service has said yet whether it has everything: start one, or see Options.Failover"
	default:
		err = c.isPromoted(ctx, seen.Epoch, is.Timeline)
	}
	return why, err
}

// stamp records where the journal lies, and its deployment. With Options.Existing it does nothing.
func (c *Conn) stamp(ctx context.Context, is leased.Place, and string) error {
	if c.s.opts.Existing {
		return nil
	}
	return c.alone(ctx, func(b *pgx.Batch) {
		b.Queue(c.s.in("UPDATE {{s}}.journal SET deployment = coalesce(deployment, $1), system_identifier = $2, database_oid = $3, table_oid = $4, timeline = $5 WHERE one = 1 "+and),
			c.s.opts.Deployment, is.System, is.Database, is.Table, is.Timeline)
	})
}

// checkGrants rejects, once, a role that lacks a privilege, before there is something to record.
func (s *Server) checkGrants(ctx context.Context, conn *pgx.Conn) error {
	if s.granted.Load() {
		return nil
	}
	var of, privileges []string
	need := func(relation string, all ...string) {
		if s.opts.ReadOnly {
			all = []string{"SELECT"}
		}
		for _, privilege := range all {
			of, privileges = append(of, relation), append(privileges, privilege)
		}
	}
	need(s.schema+".journal", "SELECT", "UPDATE")
	for _, table := range schema.Tables {
		need(s.schema+"."+table, "SELECT", "INSERT", "UPDATE", "DELETE")
	}
	for _, sequence := range append([]string{"commits"}, schema.Sequences...) {
		need("SEQUENCE "+s.schema+"."+sequence, "USAGE", "SELECT")
	}
	// The schema's version reports missing tables.
	var lacks string
	err := conn.QueryRow(ctx, `SELECT coalesce(string_agg(lack, ', '), '') FROM (
		SELECT DISTINCT p || ' ON ' || t AS lack FROM unnest($1::text[], $2::text[]) n (t, p)
		WHERE NOT CASE WHEN t LIKE 'SEQUENCE %' THEN has_sequence_privilege(to_regclass(substr(t, 10)), p) ELSE has_table_privilege(to_regclass(t), p) END) l`,
		of, privileges).Scan(&lacks)
	switch {
	case err != nil:
		return err
	case lacks != "":
		return pgerr.Lacks(lacks)
	}
	s.granted.Store(true)
	return nil
}

// WarnOfLoss warns once of a failover that loses commits, unless Options accept such a failover.
func (s *Server) WarnOfLoss() {
	if s.awaited.Load() || s.opts.Existing || !s.opts.Durable || s.opts.MayLose || s.opts.Promotable {
		return
	}
	s.opts.Log.Warn("onceward: commits wait for no standby (synchronous_standby_names is empty): if this server is lost, so are its last commits, " +
		"and nothing is sent until an operator adopts the journal. Set Options.Failover if this is intended")
}
