package rows

import (
	"bytes"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/sidecar"
)

// tables are a journal's tables. An operation's row does not grow, since the request and the answer lie apart.
const tables = `
CREATE TABLE onceward_head (
	one          INTEGER PRIMARY KEY CHECK (one = 1),
	version      INTEGER NOT NULL, -- of these tables
	identity     TEXT NOT NULL,    -- the sidecar has it, too
	epoch        BLOB NOT NULL,    -- the number of commits, and its sum: it is read without the WAL, too
	base         INTEGER NOT NULL, -- the number of commits that were in the file before its WAL began
	key          BLOB NOT NULL,    -- of the digests of names and marks, and its sum
	newest       INTEGER NOT NULL, -- the latest handle
	number       INTEGER NOT NULL, -- of commits whose clock others may not know
	last_at      INTEGER NOT NULL,
	jumped_at    INTEGER NOT NULL,
	least_margin INTEGER NOT NULL,
	ahead_at     INTEGER NOT NULL,
	leaps        TEXT NOT NULL,    -- of the clock
	hook         INTEGER NOT NULL, -- 1: outcomes are for a hook
	naming       TEXT NOT NULL,    -- of receipts' keys
	restored     TEXT NOT NULL,    -- why an adoption goes on; '': none does
	adoptions    INTEGER NOT NULL, -- that were begun
	deployment   TEXT NOT NULL,    -- Options.Deployment; '': no Open has named one
	sum          INTEGER NOT NULL  -- of the row
) STRICT;

CREATE TABLE onceward_rows (
	handle     INTEGER PRIMARY KEY,
	state      INTEGER NOT NULL,
	holder     TEXT,               -- NULL: no session
	wake_at    INTEGER,
	settled_at INTEGER,
	told       INTEGER NOT NULL,
	reaped     INTEGER NOT NULL,
	provider   TEXT NOT NULL,
	record     BLOB NOT NULL       -- and the sum of the row
) STRICT;
CREATE INDEX onceward_rows_held        ON onceward_rows (holder)             WHERE holder IS NOT NULL;
CREATE INDEX onceward_rows_wake        ON onceward_rows (wake_at, handle)    WHERE state = 1;
CREATE INDEX onceward_rows_looks       ON onceward_rows (wake_at, handle)    WHERE state = 4;
CREATE INDEX onceward_rows_unanswered  ON onceward_rows (handle)             WHERE state > 3;
CREATE INDEX onceward_rows_undelivered ON onceward_rows (handle)             WHERE told = 0 AND state > 2 AND holder IS NULL;
CREATE INDEX onceward_rows_flagged     ON onceward_rows (handle)             WHERE state > 2 AND state <> 4 AND wake_at = 0;
CREATE INDEX onceward_rows_settled     ON onceward_rows (settled_at, handle) WHERE told = 1 AND reaped = 0 AND settled_at IS NOT NULL;

-- A name or a second name of an operation, by its digest.
CREATE TABLE onceward_names (digest BLOB PRIMARY KEY, handle INTEGER NOT NULL) STRICT, WITHOUT ROWID;

-- What is large of an operation: a head with its sum, and a body that the head has the sum of.
CREATE TABLE onceward_requests (handle INTEGER PRIMARY KEY, head BLOB NOT NULL, body BLOB) STRICT;
CREATE TABLE onceward_answers  (handle INTEGER PRIMARY KEY, head BLOB NOT NULL, body BLOB) STRICT;

-- Hashes of keys, references and objects. Handle 0 stands for an operation that was removed.
CREATE TABLE onceward_marks (mark INTEGER NOT NULL, handle INTEGER NOT NULL, PRIMARY KEY (mark, handle)) STRICT, WITHOUT ROWID;

-- Events that were heard.
CREATE TABLE onceward_heard (digest BLOB PRIMARY KEY, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX onceward_heard_at ON onceward_heard (at);

-- Receipts of requests. An end that is the greatest number means that it is reserved.
CREATE TABLE onceward_receipts (
	handle INTEGER PRIMARY KEY, scope TEXT NOT NULL, key TEXT NOT NULL, place TEXT NOT NULL, state INTEGER NOT NULL, ends_at INTEGER NOT NULL,
	facts BLOB NOT NULL, answer BLOB, body BLOB
) STRICT;
CREATE UNIQUE INDEX onceward_receipts_key  ON onceward_receipts (scope, key);
CREATE INDEX        onceward_receipts_ends ON onceward_receipts (ends_at);
-- The latest handle of a receipt that was removed.
CREATE TABLE onceward_receipts_removed (one INTEGER PRIMARY KEY CHECK (one = 1), handle INTEGER NOT NULL) STRICT;
INSERT INTO onceward_receipts_removed VALUES (1, 0);
-- The latest number of an entity of a source.
CREATE TABLE onceward_entities (source TEXT NOT NULL, entity TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (source, entity)) STRICT, WITHOUT ROWID;

-- Flows, and their steps. due_at is below 0 for one that is put off for long.
CREATE TABLE onceward_flows (
	handle INTEGER PRIMARY KEY, name BLOB NOT NULL, scope TEXT NOT NULL, parent TEXT NOT NULL, id TEXT NOT NULL, function TEXT NOT NULL, version INTEGER NOT NULL,
	state INTEGER NOT NULL, holder TEXT, due_at INTEGER, ended_at INTEGER, tombstone INTEGER NOT NULL, claim INTEGER NOT NULL, facts BLOB NOT NULL, input BLOB
) STRICT;
CREATE UNIQUE INDEX onceward_flows_name    ON onceward_flows (name);
CREATE INDEX        onceward_flows_due     ON onceward_flows (due_at, handle)   WHERE state = 2;
CREATE INDEX        onceward_flows_running ON onceward_flows (handle)           WHERE state = 1;
CREATE INDEX        onceward_flows_aside   ON onceward_flows (handle)           WHERE state = 5;
CREATE INDEX        onceward_flows_ended   ON onceward_flows (ended_at, handle) WHERE ended_at IS NOT NULL AND tombstone = 0;
CREATE TABLE onceward_steps (
	flow INTEGER NOT NULL, seq INTEGER NOT NULL, kind INTEGER NOT NULL, name TEXT NOT NULL, position INTEGER NOT NULL, parallel INTEGER NOT NULL, at INTEGER NOT NULL,
	result BLOB, sum INTEGER NOT NULL, PRIMARY KEY (flow, seq)
) STRICT, WITHOUT ROWID;

-- How far lists were read. The record ends with the sum of the row.
CREATE TABLE onceward_bookmarks (name TEXT PRIMARY KEY, version INTEGER NOT NULL, record BLOB NOT NULL) STRICT;

-- Sessions that were begun and not ended. The lock on its file shows whether one is alive.
CREATE TABLE onceward_sessions (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- A row in a backup that was not adopted yet.
CREATE TABLE onceward_backup (
	one     INTEGER PRIMARY KEY CHECK (one = 1),
	made_at INTEGER NOT NULL,
	number  INTEGER NOT NULL -- of its latest commit
) STRICT;
`

const (
	// version is the version of tables. Another version is another layout, and is never edited.
	version = 6
	// sealedVersion is the version of tables with sealedTable. The first seal makes the table, so that releases without
	// seals refuse the file.
	sealedVersion = 7
)

// sealedTable has the keys that have sealed payloads (rowstore.Head.Sealed), and the text's checksum.
const sealedTable = `CREATE TABLE IF NOT EXISTS onceward_sealed (one INTEGER PRIMARY KEY CHECK (one = 1), keys TEXT NOT NULL, sum INTEGER NOT NULL) STRICT;
INSERT OR IGNORE INTO onceward_sealed VALUES (1, '', 0);
UPDATE onceward_head SET version = 7;`

// isKnown reports whether this release knows a version.
func isKnown(is any) bool { return is == int64(version) || is == int64(sealedVersion) }

// prepare makes a new journal's tables, unless the file is refused, and reports whether prepare has made the tables.
// A refused file stays unchanged.
func prepare(c *conn.Conn, path string, opts Options) (made bool, err error) {
	is, err := recognise(c, path, opts)
	if err == nil && is {
		err = refuse(c, path, opts)
	}
	if err == nil {
		err = conn.InTurn(turnTimeout, func() error { return c.Set(writerPragmas) })
	}
	if err == nil {
		err = c.Exec("BEGIN IMMEDIATE") // which makes the -wal too
	}
	if err != nil {
		return false, err
	}
	defer func() {
		if err != nil {
			_ = c.Exec("ROLLBACK") // SQLite may have done so itself
		}
	}()
	if !is {
		is, err = recognise(c, path, opts) // another process may have come first
	}
	if err == nil && !is {
		made, err = true, create(c, opts)
	}
	if err == nil {
		err = c.Exec("COMMIT")
	}
	return made, err
}

// refuse returns ErrDeployment for another deployment's journal.
func refuse(c *conn.Conn, path string, opts Options) error {
	h, err := headOf(c)
	if err != nil {
		return err
	}
	return opts.refuses(path, h.Deployment)
}

func create(c *conn.Conn, opts Options) error {
	if err := mark(c); err != nil {
		return err
	}
	if err := c.Exec(tables); err != nil {
		return err
	}
	insert, err := c.Prepare("INSERT INTO onceward_head (one, version, key, identity, epoch, base, newest, number, last_at, jumped_at, least_margin, ahead_at, hook, naming, restored, adoptions, deployment, leaps, sum) VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	h := head{Head: rowstore.Head{Identity: sidecar.NewIdentity(), Key: format.NewHashKey(), Deployment: opts.Deployment}, version: version, commits: 1}
	_, err = insert.Exec(append([]any{h.version, h.Key.Sealed()}, h.changing()...)...)
	return err
}

// applicationID marks our files in SQLite's header: "Once" in ASCII. An application that shares the file may change
// the header's ID and user_version, so only the journal's own tables count.
const applicationID = 0x4f6e6365

// mark marks a file without application data.
func mark(c *conn.Conn) error {
	theirs, err := c.Value("SELECT count(*) FROM sqlite_schema WHERE " + isTheirs)
	if err != nil || theirs != int64(0) {
		return err
	}
	is, err := c.Value("PRAGMA application_id")
	if err != nil || is != int64(0) {
		return err
	}
	return c.Exec(fmt.Sprint("PRAGMA application_id=", applicationID))
}

// head is the only row in onceward_head.
type head struct {
	rowstore.Head
	version int64
	commits int64 // all of them, those of the application too
	base    int64 // those that were in the file before its WAL began
}

// changing are the head's columns that commits change, and the row's sum.
func (h *head) changing() []any {
	numbers := [...]int64{h.base, h.Newest, h.Number, format.Millis(h.Clock.Last), format.Millis(h.Clock.Jumped), int64(h.Clock.LeastMargin), format.Millis(h.Clock.Ahead), 0}
	if h.Hook {
		numbers[len(numbers)-1] = 1
	}
	epoch := format.EncodeEpoch(h.Identity, h.commits)
	b := slices.Concat([]byte(h.Identity), h.Key.Sealed(), epoch)
	args := make([]any, 0, len(numbers)+8)
	args = append(args, h.Identity, epoch)
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
		args = append(args, n)
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(h.Epoch))
	b = append(b, h.Naming+"\x00"+h.Restored+"\x00"+h.Deployment+"\x00"+h.Leaps...)
	return append(args, h.Naming, h.Restored, h.Epoch, h.Deployment, h.Leaps, int64(format.Sum(b)))
}

const selectHead = "SELECT version, key, identity, epoch, base, newest, number, last_at, jumped_at, least_margin, ahead_at, hook, naming, restored, adoptions, deployment, leaps, sum FROM onceward_head"

// headOf reads the head by a connection.
func headOf(c *conn.Conn) (h head, err error) {
	s, err := c.Once(selectHead)
	if err != nil {
		return h, err
	}
	h, err = readHead(s)
	return h, errors.Join(err, s.Close())
}

// readHead reads what selectHead selects.
func readHead(s stmt) (h head, err error) {
	found, err := s.First(func(v []driver.Value) (err error) {
		h.version, h.Identity, h.base, h.Newest, h.Number = v[0].(int64), v[2].(string), v[4].(int64), v[5].(int64), v[6].(int64)
		h.Clock.Last, h.Clock.Jumped, h.Clock.LeastMargin = format.Moment(v[7].(int64)), format.Moment(v[8].(int64)), time.Duration(v[9].(int64))
		h.Clock.Ahead, h.Hook, h.Naming = format.Moment(v[10].(int64)), v[11] == int64(1), v[12].(string)
		h.Restored, h.Epoch, h.Deployment, h.Leaps = v[13].(string), v[14].(int64), v[15].(string), v[16].(string)
		if h.Key, err = format.UnsealHashKey(v[1].([]byte)); err != nil {
			return err
		}
		if h.commits, err = format.DecodeEpoch(h.Identity, v[3].([]byte)); err != nil {
			return err
		}
		if args := h.changing(); args[len(args)-1] != v[17] {
			return format.ErrSum
		}
		return nil
	})
	if err == nil && !found {
		err = format.ErrDamaged
	}
	return h, err
}

// heads remembers the latest head, for all connections in a process.
type heads struct{ latest atomic.Pointer[headRow] }

// headRow is a head, and the columns that identify the head's row.
type headRow struct {
	head
	epoch, sum any
}

const selectHeadSum = "SELECT version, epoch, sum FROM onceward_head"

// read returns the head. read reads the whole row only if the row is not the latest known row.
func (k *heads) read(sum, all stmt, sealed func() (string, error)) (h head, err error) {
	if known := k.latest.Load(); known != nil {
		same := false
		_, err = sum.First(func(v []driver.Value) error {
			same = v[0] == known.version && bytes.Equal(v[1].([]byte), known.epoch.([]byte)) && v[2] == known.sum
			return nil
		})
		if err != nil || same {
			return known.head, err
		}
	}
	if h, err = readHead(all); err == nil && h.version == sealedVersion {
		h.Sealed, err = sealed()
	}
	if err == nil {
		k.keep(h, h.changing())
	}
	return h, err
}

// keep remembers a head with these columns, as read from the columns.
func (k *heads) keep(h head, changing []any) {
	for _, at := range []*time.Time{&h.Clock.Last, &h.Clock.Jumped, &h.Clock.Ahead} {
		*at = format.Moment(format.Millis(*at))
	}
	k.latest.Store(&headRow{h, changing[1], changing[len(changing)-1]})
}
