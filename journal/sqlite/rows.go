package sqlite

import (
	"database/sql/driver"
	"time"

	"github.com/onceward/onceward/journal"
)

// row is an operation as it is stored, without its answer and bodies, and with its
// request undecoded.
type row struct {
	op         journal.Operation // without Request and Answer
	request    []byte
	identified bool   // in the unique index, once it has a row of its own
	answerSum  uint32 // of its answer, 0 where there is none; once it has a row of its own

	kept  *kept // it stands in the log or in a block; nil: it has a row of its own
	block bool  // in a block
}

func (r row) found() bool { return r.op.Handle != 0 }

// columns are what readRow reads, in its order.
const columns = "handle, scope, parent, id, naming, identified, provider, state, holder, wake_at, settled_at, delivered, tombstone, facts, request"

// qualified is columns of operations that a query calls o.
const qualified = "o." + columns

// readRow returns errSum, with what it reads, for a row whose sum is wrong. It is to be
// called by take.
func readRow(v []driver.Value) (row, error) {
	identified, delivered, tombstone := toByte(v[5]), toByte(v[11]), toByte(v[12])
	if max(identified, delivered, tombstone) > 1 {
		return row{}, errFormat
	}
	r := row{op: journal.Operation{
		Handle:    v[0].(int64),
		Ref:       journal.Ref{Scope: v[1].(string), Parent: v[2].(string), ID: v[3].(string)},
		Naming:    journal.Naming(toByte(v[4])),
		Provider:  v[6].(string),
		State:     journal.State(toByte(v[7])),
		Holder:    toString(v[8]),
		WakeAt:    toTime(v[9]),
		SettledAt: toTime(v[10]),
		Delivered: delivered == 1,
		Tombstone: tombstone == 1,
	}, identified: identified == 1, request: toBytes(v[14])}
	return r, decodeFacts(toBytes(v[13]), &r)
}

// goesWith refuses an answer that is not the row's, or is missing.
func (r *row) goesWith(answer []byte) error {
	if r.op.State == journal.Completed && !r.op.Tombstone && sumIn(answer) != r.answerSum {
		return errFormat
	}
	return nil
}

// What the columns of a row are read by: like an assertion of the type, these leave it
// to take to notice another one.

func toTime(v driver.Value) time.Time {
	if v == nil {
		return time.Time{}
	}
	return time.UnixMilli(v.(int64)).UTC()
}

func toString(v driver.Value) string {
	if v == nil {
		return ""
	}
	return v.(string)
}

func toBytes(v driver.Value) []byte {
	if v == nil {
		return nil
	}
	return v.([]byte)
}

// toByte is 255 for what is none.
func toByte(v driver.Value) byte { return byte(min(uint64(v.(int64)), 255)) }

func fromTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// unanswered selects the handles of operations without an answer that have a row of
// their own, by the partial indices.
const unanswered = `SELECT handle FROM onceward_operations WHERE state = 1
	UNION ALL SELECT handle FROM onceward_operations WHERE state = 2 AND holder IS NOT NULL
	UNION ALL SELECT handle FROM onceward_operations WHERE state > 3`

// fromThese goes on from a WHERE of operations: those of the providers in a JSON array,
// the statement's second parameter, or of all where that is NULL.
const fromThese = " AND (?2 IS NULL OR provider IN (SELECT value FROM json_each(?2)))"

// statements are the writer's.
type statements struct {
	begin, commit, rollback                  *stmt
	dataVersion, readIdentity, writeIdentity *stmt
	readBackup, adoptBackup                  *stmt
	readLog, appendLog, pruneLog             *stmt

	byHandle, byRef, requestBody, answer *stmt
	insert, insertAnswer                 *stmt
	update, updateHeld, updateWhole      *stmt
	remove, removeAnswer                 *stmt
	wipe, wipeAnswer, wipeBlock          *stmt

	blockOf, blocksFrom, insertBlock, updateBlock, removeBlock *stmt

	dueCount, dueFew, dueMany, nextHolder, heldBy, nobodys *stmt
	unanswered, unansweredHandles                          *stmt

	sessions, hasSession, addSession, removeSession *stmt

	segmentRows, addSegment, readSegments, spendSegment, segmentRest, segment *stmt
	removed, noteRemoved, forgetRemoved                                       *stmt
}

func newStatements(c *conn) (*statements, error) {
	s := new(statements)
	for _, p := range []struct {
		stmt **stmt
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

		{&s.readLog, "SELECT " + logColumns + " FROM onceward_log WHERE seq > ? ORDER BY seq"},
		{&s.appendLog, "INSERT INTO onceward_log (" + logColumns + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?)"},
		{&s.pruneLog, "DELETE FROM onceward_log WHERE seq <= ?"},

		{&s.blockOf, blockOf},
		{&s.blocksFrom, "SELECT first, data FROM onceward_blocks WHERE first >= ? ORDER BY first"},
		{&s.insertBlock, "INSERT INTO onceward_blocks (first, data) VALUES (?, ?)"},
		{&s.updateBlock, "UPDATE onceward_blocks SET data = ? WHERE first = ?"},
		{&s.removeBlock, "DELETE FROM onceward_blocks WHERE first = ?"},

		{&s.byHandle, "SELECT " + columns + " FROM onceward_operations WHERE handle = ?"},
		{&s.byRef, "SELECT " + columns + " FROM onceward_operations WHERE identified = 1 AND id = ? AND scope = ? AND parent = ?"},
		{&s.requestBody, "SELECT request_body FROM onceward_operations WHERE handle = ?"},
		{&s.answer, "SELECT answer, body FROM onceward_answers WHERE handle = ?"},

		{&s.insert, `INSERT INTO onceward_operations (handle, scope, parent, id, naming, identified, provider, state, holder,
			wake_at, settled_at, delivered, tombstone, facts, request, request_body)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.insertAnswer, "INSERT OR REPLACE INTO onceward_answers (handle, answer, body) VALUES (?, ?, ?)"},
		{&s.update, `UPDATE onceward_operations SET state = ?, wake_at = ?, settled_at = ?, delivered = ?, facts = ?, holder = ?
			WHERE handle = ?`},
		// What isn't named in SET costs no look at its index.
		{&s.updateHeld, "UPDATE onceward_operations SET state = ?, wake_at = ?, settled_at = ?, delivered = ?, facts = ? WHERE handle = ?"},
		{&s.updateWhole, `UPDATE onceward_operations SET state = ?, wake_at = ?, settled_at = ?, delivered = ?, facts = ?, holder = ?,
			naming = ?, identified = ?, provider = ?, tombstone = ?, request = ?, request_body = ? WHERE handle = ?`},
		// What takes as many bytes as before is written over it. What takes fewer is moved,
		// and secure_delete does not see to all that is left behind in a page.
		{&s.wipe, `UPDATE onceward_operations SET facts = zeroblob(length(facts)), request = iif(request IS NULL, NULL, zeroblob(length(request))),
			request_body = iif(request_body IS NULL, NULL, zeroblob(length(request_body))) WHERE handle = ?`},
		{&s.wipeAnswer, "UPDATE onceward_answers SET answer = zeroblob(length(answer)), body = iif(body IS NULL, NULL, zeroblob(length(body))) WHERE handle = ?"},
		{&s.wipeBlock, "UPDATE onceward_blocks SET data = zeroblob(length(data)) WHERE first = ?"},
		{&s.remove, "DELETE FROM onceward_operations WHERE handle = ?"},
		{&s.removeAnswer, "DELETE FROM onceward_answers WHERE handle = ?"},

		{&s.dueCount, "SELECT count(*) FROM (SELECT 1 FROM onceward_operations INDEXED BY onceward_operations_wake WHERE state = 1 AND wake_at <= ? LIMIT ?)"},
		{&s.dueFew, "SELECT handle FROM onceward_operations INDEXED BY onceward_operations_wake WHERE state = 1 AND wake_at <= ?1" + fromThese + " LIMIT ?3"},
		{&s.dueMany, "SELECT handle FROM onceward_operations INDEXED BY onceward_operations_pending WHERE state = 1 AND wake_at <= ?1 AND handle > ?4" + fromThese + " ORDER BY handle LIMIT ?3"},
		{&s.nextHolder, "SELECT holder FROM onceward_operations INDEXED BY onceward_operations_held WHERE holder > ? ORDER BY holder LIMIT 1"},
		{&s.heldBy, "SELECT handle FROM onceward_operations INDEXED BY onceward_operations_held WHERE holder = ?1 AND handle > ?4 AND (state > 2 OR (true" + fromThese + ")) ORDER BY handle LIMIT ?3"},
		{&s.nobodys, `SELECT handle FROM onceward_operations INDEXED BY onceward_operations_nobodys
			WHERE state > 2 AND delivered = 0 AND holder IS NULL AND handle > ? ORDER BY handle LIMIT ?`},
		{&s.unanswered, "SELECT " + columns + " FROM onceward_operations WHERE handle IN (" + unanswered + ")"},
		{&s.unansweredHandles, unanswered},

		{&s.sessions, "SELECT id FROM onceward_sessions"},
		{&s.hasSession, "SELECT 1 FROM onceward_sessions WHERE id = ?"},
		{&s.addSession, "INSERT INTO onceward_sessions (id) VALUES (?)"},
		{&s.removeSession, "DELETE FROM onceward_sessions WHERE id = ?"},

		{&s.segmentRows, "SELECT " + columns + " FROM onceward_operations WHERE handle > ?"},
		{&s.addSegment, "INSERT OR REPLACE INTO onceward_segments (first, began_at, spent, hashes) VALUES (?, ?, 0, ?)"},
		{&s.readSegments, "SELECT " + segmentColumns + " FROM onceward_segments WHERE first > ? ORDER BY first"},
		{&s.spendSegment, "UPDATE onceward_segments SET began_at = 0, spent = 1, hashes = ? WHERE first = ?"},
		{&s.segment, "SELECT " + segmentColumns + " FROM onceward_segments WHERE first = ?"},
		{&s.removed, removedOf},
		{&s.noteRemoved, "INSERT OR REPLACE INTO onceward_removed (first, bits) VALUES (?, ?)"},
		{&s.forgetRemoved, "DELETE FROM onceward_removed WHERE first = ?"},
		{&s.segmentRest, "SELECT " + columns + " FROM onceward_operations WHERE handle >= ? AND handle < ? ORDER BY handle"},
	} {
		var err error
		if *p.stmt, err = c.prepare(p.text); err != nil {
			return nil, err
		}
	}
	return s, nil
}
