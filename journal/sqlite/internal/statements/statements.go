// Package statements is the SQL of the writer, prepared once for each connection.
//
// It knows the tables and their indices. It must not know what a batch does with a row: each statement has a name, and the
// batch gives its arguments.
package statements

import (
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
	"github.com/onceward/onceward/journal/sqlite/internal/schema"
	"github.com/onceward/onceward/journal/sqlite/internal/sealed"
)

// DueLooks selects unknown operations whose look-up is due, the longest due first.
const DueLooks = "SELECT wake_at, handle FROM onceward_operations INDEXED BY onceward_operations_looks WHERE state = 4 AND wake_at > 0 AND wake_at <= ?1" +
	fromThese + " ORDER BY wake_at LIMIT ?3"

// unansweredAfter selects the handles of the first operations without an answer after a handle, in order, of those that have a row of
// their own. It looks at all that are held, which are few.
const unansweredAfter = `SELECT handle FROM onceward_operations INDEXED BY onceward_operations_pending WHERE state = 1 AND handle > ?1
	UNION ALL SELECT handle FROM onceward_operations INDEXED BY onceward_operations_failed WHERE state > 3 AND handle > ?1
	UNION ALL SELECT handle FROM (SELECT handle FROM onceward_operations INDEXED BY onceward_operations_held WHERE holder IS NOT NULL AND handle > ?1 AND state = 2)
	ORDER BY handle LIMIT ?2`

// fromThese continues a WHERE of operations: those of the providers in a JSON array, the statement's second
// parameter, or all if it is NULL.
const fromThese = " AND (?2 IS NULL OR provider IN (SELECT value FROM json_each(?2)))"

// toldNow excludes unknown operations that are looked up and not dead. A look-up does not deliver them,
// and need not read them.
const toldNow = "state <> 4 OR wake_at = 0"

// Statements are the writer's, but for flows.
type Statements struct {
	Begin, Commit, Rollback                  *conn.Stmt
	DataVersion, ReadIdentity, WriteIdentity *conn.Stmt
	ReadBackup, AdoptBackup                  *conn.Stmt
	ReadOwner, WriteOwner                    *conn.Stmt
	ReadLog, AppendLog, PruneLog, LogEnds    *conn.Stmt

	ByHandle, ByRef, RequestBody, Answer *conn.Stmt
	Insert, InsertAnswer                 *conn.Stmt
	Update, UpdateHeld, UpdateWhole      *conn.Stmt
	Remove, RemoveAnswer                 *conn.Stmt
	Wipe, WipeAnswer, WipeBlock          *conn.Stmt

	BlockOf, BlocksFrom, InsertBlock, UpdateBlock, RemoveBlock *conn.Stmt

	DueCount, DueFew, DueMany, DueEnd, NextHolder, HeldBy, Unheld *conn.Stmt
	UnansweredAfter                                               *conn.Stmt

	ReadSweeps, AddSweep, MoveSweep, EndSweep *conn.Stmt
	IsSwept, AddSwept, ForgetSwept            *conn.Stmt

	Sessions, HasSession, AddSession, RemoveSession *conn.Stmt

	SegmentRows, AddSegment, ReadSegments, SpendSegment, SegmentRest, Segment *conn.Stmt
	Removed, NoteRemoved, ForgetRemoved                                       *conn.Stmt
	Contents, NoteContents, ForgetContents                                    *conn.Stmt

	AddMark, RemoveMark, FindMarks, FindFound, DueLooks *conn.Stmt
	HasHeard, AddHeard, OldHeard, RemoveHeard           *conn.Stmt

	ReadOutbox, ClearOutbox *conn.Stmt
}

// New prepares them on a connection.
func New(c *conn.Conn) (*Statements, error) {
	s := new(Statements)
	for _, p := range []struct {
		stmt **conn.Stmt
		text string
	}{
		{&s.Begin, "BEGIN IMMEDIATE"},
		{&s.Commit, "COMMIT"},
		{&s.Rollback, "ROLLBACK"},

		{&s.DataVersion, "PRAGMA data_version"},
		{&s.ReadIdentity, "SELECT identity, epoch, (SELECT version FROM onceward_schema) FROM onceward_journal"},
		{&s.WriteIdentity, "UPDATE onceward_journal SET identity = ?, epoch = ?"},
		{&s.ReadBackup, "SELECT made_at, number FROM onceward_backup"},
		{&s.AdoptBackup, "DELETE FROM onceward_backup"},

		{&s.ReadOwner, schema.ReadOwner},
		{&s.WriteOwner, schema.WriteOwner},

		{&s.LogEnds, "SELECT max(seq) FROM onceward_log"},
		{&s.ReadLog, "SELECT " + format.LogColumns + " FROM onceward_log WHERE seq > ? ORDER BY seq"},
		{&s.AppendLog, "INSERT INTO onceward_log (" + format.LogColumns + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?)"},
		{&s.PruneLog, "DELETE FROM onceward_log WHERE seq <= ?"},

		{&s.BlockOf, read.BlockOf},
		{&s.BlocksFrom, "SELECT first, data FROM onceward_blocks WHERE first >= ? ORDER BY first"},
		{&s.InsertBlock, "INSERT INTO onceward_blocks (first, data) VALUES (?, ?)"},
		{&s.UpdateBlock, "UPDATE onceward_blocks SET data = ? WHERE first = ?"},
		{&s.RemoveBlock, "DELETE FROM onceward_blocks WHERE first = ?"},

		{&s.ByHandle, "SELECT " + format.Columns + " FROM onceward_operations WHERE handle = ?"},
		{&s.ByRef, "SELECT " + format.Columns + " FROM onceward_operations WHERE identified = 1 AND id = ? AND scope = ? AND parent = ?"},
		{&s.RequestBody, "SELECT request_body FROM onceward_operations WHERE handle = ?"},
		{&s.Answer, "SELECT answer, body FROM onceward_answers WHERE handle = ?"},

		{&s.Insert, `INSERT INTO onceward_operations (handle, scope, parent, id, naming, identified, provider, state, holder,
			wake_at, settled_at, delivered, tombstone, facts, request, request_body)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.InsertAnswer, "INSERT OR REPLACE INTO onceward_answers (handle, answer, body) VALUES (?, ?, ?)"},
		{&s.Update, `UPDATE onceward_operations SET state = ?, wake_at = ?, settled_at = ?, delivered = ?, facts = ?, holder = ?
			WHERE handle = ?`},
		// A column that SET does not name costs no search of its index.
		{&s.UpdateHeld, "UPDATE onceward_operations SET state = ?, wake_at = ?, settled_at = ?, delivered = ?, facts = ? WHERE handle = ?"},
		{&s.UpdateWhole, `UPDATE onceward_operations SET state = ?, wake_at = ?, settled_at = ?, delivered = ?, facts = ?, holder = ?,
			naming = ?, identified = ?, provider = ?, tombstone = ?, request = ?, request_body = ? WHERE handle = ?`},
		// A value of the same length is overwritten in place. A shorter one moves, and secure_delete does not
		// clear all remains in a page.
		{&s.Wipe, `UPDATE onceward_operations SET facts = zeroblob(length(facts)), request = iif(request IS NULL, NULL, zeroblob(length(request))),
			request_body = iif(request_body IS NULL, NULL, zeroblob(length(request_body))) WHERE handle = ?`},
		{&s.WipeAnswer, "UPDATE onceward_answers SET answer = zeroblob(length(answer)), body = iif(body IS NULL, NULL, zeroblob(length(body))) WHERE handle = ?"},
		{&s.WipeBlock, "UPDATE onceward_blocks SET data = zeroblob(length(data)) WHERE first = ?"},
		{&s.Remove, "DELETE FROM onceward_operations WHERE handle = ?"},
		{&s.RemoveAnswer, "DELETE FROM onceward_answers WHERE handle = ?"},

		{&s.DueCount, "SELECT count(*) FROM (SELECT 1 FROM onceward_operations INDEXED BY onceward_operations_wake WHERE state = 1 AND wake_at BETWEEN -?1 AND ?1 LIMIT ?2)"},
		{&s.DueFew, "SELECT handle FROM onceward_operations INDEXED BY onceward_operations_wake WHERE state = 1 AND wake_at BETWEEN -?1 AND ?1" + fromThese + " LIMIT ?3"},
		{&s.DueMany, "SELECT handle FROM onceward_operations INDEXED BY onceward_operations_pending WHERE state = 1 AND wake_at BETWEEN -?1 AND ?1 AND handle > ?4 AND handle <= ?5" + fromThese + " ORDER BY handle LIMIT ?3"},
		{&s.DueEnd, "SELECT count(*), max(handle) FROM (SELECT handle FROM onceward_operations INDEXED BY onceward_operations_pending WHERE state = 1 AND wake_at BETWEEN -?1 AND ?1 AND handle > ?3 ORDER BY handle LIMIT ?2)"},
		{&s.NextHolder, "SELECT holder FROM onceward_operations INDEXED BY onceward_operations_held WHERE holder > ? ORDER BY holder LIMIT 1"},
		{&s.HeldBy, "SELECT handle FROM onceward_operations INDEXED BY onceward_operations_held WHERE holder = ?1 AND handle > ?4 AND (state > 2 OR (true" + fromThese + ")) AND (NOT ?5 OR " + toldNow + ") ORDER BY handle LIMIT ?3"},
		{&s.Unheld, `SELECT handle FROM onceward_operations INDEXED BY onceward_operations_nobodys
			WHERE state > 2 AND delivered = 0 AND holder IS NULL AND handle > ?1 AND (NOT ?3 OR ` + toldNow + `) ORDER BY handle LIMIT ?2`},
		{&s.UnansweredAfter, unansweredAfter},

		{&s.ReadSweeps, "SELECT " + sealed.SweepColumns + " FROM onceward_sweeps ORDER BY seq"},
		{&s.AddSweep, "INSERT INTO onceward_sweeps (" + sealed.SweepColumns + ") VALUES (?, ?, ?, ?, ?, ?, ?)"},
		{&s.MoveSweep, "UPDATE onceward_sweeps SET position = ?, sum = ? WHERE seq = ?"},
		{&s.EndSweep, "DELETE FROM onceward_sweeps WHERE seq = ?"},
		{&s.IsSwept, "SELECT 1 FROM onceward_swept WHERE sweep = ? AND handle = ?"},
		{&s.AddSwept, "INSERT OR IGNORE INTO onceward_swept (sweep, handle) VALUES (?, ?)"},
		{&s.ForgetSwept, "DELETE FROM onceward_swept WHERE sweep = ?"},

		{&s.AddMark, "INSERT OR IGNORE INTO onceward_marks (bucket, hash, handle) VALUES (?, ?, ?)"},
		{&s.RemoveMark, "DELETE FROM onceward_marks WHERE bucket = ? AND hash = ? AND handle = ?"},
		{&s.FindMarks, sealed.FindMarks},
		{&s.FindFound, "SELECT handle FROM onceward_marks WHERE bucket = ? AND hash = ?"},
		{&s.DueLooks, DueLooks},
		{&s.HasHeard, "SELECT 1 FROM onceward_heard WHERE hash = ?"},
		{&s.AddHeard, "INSERT INTO onceward_heard (hash, at) VALUES (?, ?)"},
		{&s.OldHeard, "SELECT hash FROM onceward_heard INDEXED BY onceward_heard_at WHERE at < ? LIMIT ?"},
		{&s.RemoveHeard, "DELETE FROM onceward_heard WHERE hash = ?"},

		{&s.ReadOutbox, "SELECT " + sealed.OutboxColumns + " FROM onceward_outbox ORDER BY seq"},
		{&s.ClearOutbox, "DELETE FROM onceward_outbox WHERE seq <= ?"},

		{&s.Sessions, "SELECT id FROM onceward_sessions"},
		{&s.HasSession, "SELECT 1 FROM onceward_sessions WHERE id = ?"},
		{&s.AddSession, "INSERT OR IGNORE INTO onceward_sessions (id) VALUES (?)"},
		{&s.RemoveSession, "DELETE FROM onceward_sessions WHERE id = ?"},

		{&s.SegmentRows, "SELECT " + format.Columns + " FROM onceward_operations WHERE handle > ?"},
		{&s.AddSegment, "INSERT OR REPLACE INTO onceward_segments (first, began_at, spent, hashes) VALUES (?, ?, 0, ?)"},
		{&s.ReadSegments, "SELECT " + format.SegmentColumns + " FROM onceward_segments WHERE first > ? ORDER BY first"},
		{&s.SpendSegment, "UPDATE onceward_segments SET began_at = 0, spent = 1, hashes = ? WHERE first = ?"},
		{&s.Segment, "SELECT " + format.SegmentColumns + " FROM onceward_segments WHERE first = ?"},
		{&s.Removed, read.RemovedOf},
		{&s.NoteRemoved, "INSERT OR REPLACE INTO onceward_removed (first, bits) VALUES (?, ?)"},
		{&s.ForgetRemoved, "DELETE FROM onceward_removed WHERE first = ?"},
		{&s.Contents, sealed.ContentsOf},
		{&s.NoteContents, "INSERT OR REPLACE INTO onceward_contents (first, hashes) VALUES (?, ?)"},
		{&s.ForgetContents, "DELETE FROM onceward_contents WHERE first = ?"},
		{&s.SegmentRest, "SELECT " + format.Columns + " FROM onceward_operations WHERE handle >= ? AND handle < ? ORDER BY handle"},
	} {
		var err error
		if *p.stmt, err = c.Prepare(p.text); err != nil {
			return nil, err
		}
	}
	return s, nil
}
