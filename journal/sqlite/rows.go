package sqlite

import (
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
	"github.com/onceward/onceward/journal/sqlite/internal/schema"
	"github.com/onceward/onceward/journal/sqlite/internal/sealed"
)

// row is an operation as it is stored, and its place.
type row struct {
	format.Row
	record *format.Record // it stands in the log or in a block; nil: it has a row of its own
	block  bool           // in a block
	swept  bool           // it is not as it is stored: a sweep has still to come to it
}

func (r row) found() bool { return r.Op.Handle != 0 }

// unansweredAfter selects the handles of the first operations without an answer after a handle, in order, of those that have a row of
// their own. It looks at all that are held, which are few.
const unansweredAfter = `SELECT handle FROM onceward_operations INDEXED BY onceward_operations_pending WHERE state = 1 AND handle > ?1
	UNION ALL SELECT handle FROM onceward_operations INDEXED BY onceward_operations_failed WHERE state > 3 AND handle > ?1
	UNION ALL SELECT handle FROM (SELECT handle FROM onceward_operations INDEXED BY onceward_operations_held WHERE holder IS NOT NULL AND handle > ?1 AND state = 2)
	ORDER BY handle LIMIT ?2`

// fromThese continues a WHERE of operations: those of the providers in a JSON array, the statement's second
// parameter, or all if it is NULL.
const fromThese = " AND (?2 IS NULL OR provider IN (SELECT value FROM json_each(?2)))"

// toldNow excludes unknown operations that are looked up and not dead. A look-up delivers them to nobody, and
// need not read them.
const toldNow = "state <> 4 OR wake_at = 0"

// statements are the writer's.
type statements struct {
	begin, commit, rollback                  *conn.Stmt
	dataVersion, readIdentity, writeIdentity *conn.Stmt
	readBackup, adoptBackup                  *conn.Stmt
	readOwner, writeOwner                    *conn.Stmt
	readLog, appendLog, pruneLog, logEnds    *conn.Stmt

	byHandle, byRef, requestBody, answer *conn.Stmt
	insert, insertAnswer                 *conn.Stmt
	update, updateHeld, updateWhole      *conn.Stmt
	remove, removeAnswer                 *conn.Stmt
	wipe, wipeAnswer, wipeBlock          *conn.Stmt

	blockOf, blocksFrom, insertBlock, updateBlock, removeBlock *conn.Stmt

	dueCount, dueFew, dueMany, dueEnd, nextHolder, heldBy, unheld *conn.Stmt
	unansweredAfter                                               *conn.Stmt

	readSweeps, addSweep, moveSweep, endSweep *conn.Stmt
	isSwept, addSwept, forgetSwept            *conn.Stmt

	sessions, hasSession, addSession, removeSession *conn.Stmt

	segmentRows, addSegment, readSegments, spendSegment, segmentRest, segment *conn.Stmt
	removed, noteRemoved, forgetRemoved                                       *conn.Stmt
	contents, noteContents, forgetContents                                    *conn.Stmt

	addMark, removeMark, findMarks, findFound, dueLooks *conn.Stmt
	hasHeard, addHeard, oldHeard, removeHeard           *conn.Stmt

	readOutbox, clearOutbox *conn.Stmt
}

func newStatements(c *conn.Conn) (*statements, error) {
	s := new(statements)
	for _, p := range []struct {
		stmt **conn.Stmt
		text string
	}{
		{&s.begin, "BEGIN IMMEDIATE"},
		{&s.commit, "COMMIT"},
		{&s.rollback, "ROLLBACK"},

		{&s.dataVersion, "PRAGMA data_version"},
		{&s.readIdentity, "SELECT identity, epoch, (SELECT version FROM onceward_schema) FROM onceward_journal"},
		{&s.writeIdentity, "UPDATE onceward_journal SET identity = ?, epoch = ?"},
		{&s.readBackup, "SELECT made_at, number FROM onceward_backup"},
		{&s.adoptBackup, "DELETE FROM onceward_backup"},

		{&s.readOwner, schema.ReadOwner},
		{&s.writeOwner, schema.WriteOwner},

		{&s.logEnds, "SELECT max(seq) FROM onceward_log"},
		{&s.readLog, "SELECT " + format.LogColumns + " FROM onceward_log WHERE seq > ? ORDER BY seq"},
		{&s.appendLog, "INSERT INTO onceward_log (" + format.LogColumns + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?)"},
		{&s.pruneLog, "DELETE FROM onceward_log WHERE seq <= ?"},

		{&s.blockOf, read.BlockOf},
		{&s.blocksFrom, "SELECT first, data FROM onceward_blocks WHERE first >= ? ORDER BY first"},
		{&s.insertBlock, "INSERT INTO onceward_blocks (first, data) VALUES (?, ?)"},
		{&s.updateBlock, "UPDATE onceward_blocks SET data = ? WHERE first = ?"},
		{&s.removeBlock, "DELETE FROM onceward_blocks WHERE first = ?"},

		{&s.byHandle, "SELECT " + format.Columns + " FROM onceward_operations WHERE handle = ?"},
		{&s.byRef, "SELECT " + format.Columns + " FROM onceward_operations WHERE identified = 1 AND id = ? AND scope = ? AND parent = ?"},
		{&s.requestBody, "SELECT request_body FROM onceward_operations WHERE handle = ?"},
		{&s.answer, "SELECT answer, body FROM onceward_answers WHERE handle = ?"},

		{&s.insert, `INSERT INTO onceward_operations (handle, scope, parent, id, naming, identified, provider, state, holder,
			wake_at, settled_at, delivered, tombstone, facts, request, request_body)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.insertAnswer, "INSERT OR REPLACE INTO onceward_answers (handle, answer, body) VALUES (?, ?, ?)"},
		{&s.update, `UPDATE onceward_operations SET state = ?, wake_at = ?, settled_at = ?, delivered = ?, facts = ?, holder = ?
			WHERE handle = ?`},
		// A column that SET does not name costs no search of its index.
		{&s.updateHeld, "UPDATE onceward_operations SET state = ?, wake_at = ?, settled_at = ?, delivered = ?, facts = ? WHERE handle = ?"},
		{&s.updateWhole, `UPDATE onceward_operations SET state = ?, wake_at = ?, settled_at = ?, delivered = ?, facts = ?, holder = ?,
			naming = ?, identified = ?, provider = ?, tombstone = ?, request = ?, request_body = ? WHERE handle = ?`},
		// A value of the same length is overwritten in place. A shorter one moves, and secure_delete does not
		// clear all remains in a page.
		{&s.wipe, `UPDATE onceward_operations SET facts = zeroblob(length(facts)), request = iif(request IS NULL, NULL, zeroblob(length(request))),
			request_body = iif(request_body IS NULL, NULL, zeroblob(length(request_body))) WHERE handle = ?`},
		{&s.wipeAnswer, "UPDATE onceward_answers SET answer = zeroblob(length(answer)), body = iif(body IS NULL, NULL, zeroblob(length(body))) WHERE handle = ?"},
		{&s.wipeBlock, "UPDATE onceward_blocks SET data = zeroblob(length(data)) WHERE first = ?"},
		{&s.remove, "DELETE FROM onceward_operations WHERE handle = ?"},
		{&s.removeAnswer, "DELETE FROM onceward_answers WHERE handle = ?"},

		{&s.dueCount, "SELECT count(*) FROM (SELECT 1 FROM onceward_operations INDEXED BY onceward_operations_wake WHERE state = 1 AND wake_at BETWEEN -?1 AND ?1 LIMIT ?2)"},
		{&s.dueFew, "SELECT handle FROM onceward_operations INDEXED BY onceward_operations_wake WHERE state = 1 AND wake_at BETWEEN -?1 AND ?1" + fromThese + " LIMIT ?3"},
		{&s.dueMany, "SELECT handle FROM onceward_operations INDEXED BY onceward_operations_pending WHERE state = 1 AND wake_at BETWEEN -?1 AND ?1 AND handle > ?4 AND handle <= ?5" + fromThese + " ORDER BY handle LIMIT ?3"},
		{&s.dueEnd, "SELECT count(*), max(handle) FROM (SELECT handle FROM onceward_operations INDEXED BY onceward_operations_pending WHERE state = 1 AND wake_at BETWEEN -?1 AND ?1 AND handle > ?3 ORDER BY handle LIMIT ?2)"},
		{&s.nextHolder, "SELECT holder FROM onceward_operations INDEXED BY onceward_operations_held WHERE holder > ? ORDER BY holder LIMIT 1"},
		{&s.heldBy, "SELECT handle FROM onceward_operations INDEXED BY onceward_operations_held WHERE holder = ?1 AND handle > ?4 AND (state > 2 OR (true" + fromThese + ")) AND (NOT ?5 OR " + toldNow + ") ORDER BY handle LIMIT ?3"},
		{&s.unheld, `SELECT handle FROM onceward_operations INDEXED BY onceward_operations_nobodys
			WHERE state > 2 AND delivered = 0 AND holder IS NULL AND handle > ?1 AND (NOT ?3 OR ` + toldNow + `) ORDER BY handle LIMIT ?2`},
		{&s.unansweredAfter, unansweredAfter},

		{&s.readSweeps, "SELECT " + sealed.SweepColumns + " FROM onceward_sweeps ORDER BY seq"},
		{&s.addSweep, "INSERT INTO onceward_sweeps (" + sealed.SweepColumns + ") VALUES (?, ?, ?, ?, ?, ?, ?)"},
		{&s.moveSweep, "UPDATE onceward_sweeps SET position = ?, sum = ? WHERE seq = ?"},
		{&s.endSweep, "DELETE FROM onceward_sweeps WHERE seq = ?"},
		{&s.isSwept, "SELECT 1 FROM onceward_swept WHERE sweep = ? AND handle = ?"},
		{&s.addSwept, "INSERT OR IGNORE INTO onceward_swept (sweep, handle) VALUES (?, ?)"},
		{&s.forgetSwept, "DELETE FROM onceward_swept WHERE sweep = ?"},

		{&s.addMark, "INSERT OR IGNORE INTO onceward_marks (bucket, hash, handle) VALUES (?, ?, ?)"},
		{&s.removeMark, "DELETE FROM onceward_marks WHERE bucket = ? AND hash = ? AND handle = ?"},
		{&s.findMarks, sealed.FindMarks},
		{&s.findFound, "SELECT handle FROM onceward_marks WHERE bucket = ? AND hash = ?"},
		{&s.dueLooks, dueLooks},
		{&s.hasHeard, "SELECT 1 FROM onceward_heard WHERE hash = ?"},
		{&s.addHeard, "INSERT INTO onceward_heard (hash, at) VALUES (?, ?)"},
		{&s.oldHeard, "SELECT hash FROM onceward_heard INDEXED BY onceward_heard_at WHERE at < ? LIMIT ?"},
		{&s.removeHeard, "DELETE FROM onceward_heard WHERE hash = ?"},

		{&s.readOutbox, "SELECT " + sealed.OutboxColumns + " FROM onceward_outbox ORDER BY seq"},
		{&s.clearOutbox, "DELETE FROM onceward_outbox WHERE seq <= ?"},

		{&s.sessions, "SELECT id FROM onceward_sessions"},
		{&s.hasSession, "SELECT 1 FROM onceward_sessions WHERE id = ?"},
		{&s.addSession, "INSERT OR IGNORE INTO onceward_sessions (id) VALUES (?)"},
		{&s.removeSession, "DELETE FROM onceward_sessions WHERE id = ?"},

		{&s.segmentRows, "SELECT " + format.Columns + " FROM onceward_operations WHERE handle > ?"},
		{&s.addSegment, "INSERT OR REPLACE INTO onceward_segments (first, began_at, spent, hashes) VALUES (?, ?, 0, ?)"},
		{&s.readSegments, "SELECT " + format.SegmentColumns + " FROM onceward_segments WHERE first > ? ORDER BY first"},
		{&s.spendSegment, "UPDATE onceward_segments SET began_at = 0, spent = 1, hashes = ? WHERE first = ?"},
		{&s.segment, "SELECT " + format.SegmentColumns + " FROM onceward_segments WHERE first = ?"},
		{&s.removed, read.RemovedOf},
		{&s.noteRemoved, "INSERT OR REPLACE INTO onceward_removed (first, bits) VALUES (?, ?)"},
		{&s.forgetRemoved, "DELETE FROM onceward_removed WHERE first = ?"},
		{&s.contents, sealed.ContentsOf},
		{&s.noteContents, "INSERT OR REPLACE INTO onceward_contents (first, hashes) VALUES (?, ?)"},
		{&s.forgetContents, "DELETE FROM onceward_contents WHERE first = ?"},
		{&s.segmentRest, "SELECT " + format.Columns + " FROM onceward_operations WHERE handle >= ? AND handle < ? ORDER BY handle"},
	} {
		var err error
		if *p.stmt, err = c.Prepare(p.text); err != nil {
			return nil, err
		}
	}
	return s, nil
}
