package server

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal/internal/fleet"
)

// Recheck implements fleet.Standbys.
func (s *Server) Recheck(ctx context.Context, conn fleet.Conn) error {
	started, err := startOf(ctx, conn.(*Conn).Conn)
	if err == nil && !started.Equal(s.Started()) {
		err = conn.Check(ctx)
	}
	return err
}

// isPromoted makes the journal wait, on another timeline, until all living processes have found their acknowledged
// commits there. This process looks at once, the others with their next commit or beat. Synchronous commits prove
// nothing here: afterwards no process knows which standby confirmed the commits, since when, and whether the confirming
// standby was promoted.
func (c *Conn) isPromoted(ctx context.Context, epoch int64, timeline string) error {
	f := c.s.fleet
	err := f.Taken(func() (fleet.Journal, error) {
		return c.mark(ctx, "promoted", "promoted IS DISTINCT FROM $2 AND timeline IS DISTINCT FROM $2", epoch, timeline)
	})
	if err != nil || f.Member() == nil {
		return err
	}
	return f.Answer(ctx, c)
}

// Answer implements fleet.Standbys. If some commits are missing, the journal counts as restored. The journal goes on once
// all living processes have answered.
func (s *Server) Answer(ctx context.Context, conn fleet.Conn, is fleet.Journal) error {
	f := s.fleet
	if why, err := f.Lacking(ctx, conn); err != nil {
		return err
	} else if why != "" {
		return f.IsRestored(ctx, conn, is.Epoch, "the server was promoted, and lacks acknowledged commits: "+why)
	}
	err := conn.(*Conn).alone(ctx, func(b *pgx.Batch) {
		b.Queue(s.in("UPDATE {{s}}.sessions SET timeline = $2 WHERE id = $1"), f.Member().ID, is.Promoted)
		b.Queue(s.in("UPDATE {{s}}.journal SET timeline = promoted, promoted = NULL WHERE promoted = $1 AND NOT EXISTS "+
			"(SELECT 1 FROM {{s}}.sessions WHERE id = process AND buried_at IS NULL AND timeline IS DISTINCT FROM $1)"), is.Promoted)
	})
	if err == nil {
		_, err = f.LookAgain(ctx, conn)
	}
	return err
}

// Silent implements fleet.Standbys. A dead process gives no answer: its acknowledged commits are unknown.
func (s *Server) Silent(ctx context.Context, conn fleet.Conn, dead []string) (promoted bool, err error) {
	var silent int
	var epoch int64
	err = conn.(*Conn).QueryRow(ctx, s.in("SELECT epoch, promoted IS NOT NULL AND restored IS NULL, (SELECT count(*) FROM {{s}}.sessions s "+
		"WHERE id = ANY($1) AND id = process AND s.timeline IS DISTINCT FROM promoted) FROM {{s}}.journal"), dead).Scan(&epoch, &promoted, &silent)
	if err != nil || !promoted || silent == 0 {
		return promoted, err
	}
	return true, s.fleet.IsRestored(ctx, conn, epoch, "the server was promoted, and a process died that could have checked for missing commits")
}
