package sqlite

import (
	"database/sql/driver"
	"fmt"

	codes "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/journal"
)

// applicationID marks our files in SQLite's header: "Once" in ASCII.
const applicationID = 0x4f6e6365

// unreleased is the latest schema version of those that were there before the first
// release, and can't be read any more.
const unreleased = 1

// migrations lead from the version that is their index, counted from unreleased, to the
// next. They run in one transaction. What has been released is never changed, only added
// to.
var migrations = []string{`
-- Those that are neither in the log nor in a block, one row each, in the order of
-- creation. A handle is never used again.
CREATE TABLE operations (
	handle       INTEGER PRIMARY KEY,
	scope        TEXT NOT NULL,
	parent       TEXT NOT NULL,
	id           TEXT NOT NULL,
	naming       INTEGER NOT NULL,
	identified   INTEGER NOT NULL, -- 1: in the unique index; 0: found by segments.hashes
	provider     TEXT NOT NULL,
	state        INTEGER NOT NULL,
	holder       TEXT,             -- NULL: nobody
	wake_at      INTEGER,          -- milliseconds since 1970, as all times
	settled_at   INTEGER,
	delivered    INTEGER NOT NULL,
	tombstone    INTEGER NOT NULL,
	facts        BLOB NOT NULL,
	request      BLOB,
	request_body BLOB
) STRICT;

-- Beside the operation, so that its row need not grow when the answer comes: rows
-- that grow split their pages. NULL bodies are also empty ones.
CREATE TABLE answers (
	handle INTEGER PRIMARY KEY,
	answer BLOB NOT NULL,
	body   BLOB
) STRICT;

-- Random keys would dirty a page of this index for every operation: those that we
-- made need no uniqueness check, and are kept out of it.
CREATE UNIQUE INDEX operations_identity ON operations (id, scope, parent) WHERE identified = 1;

CREATE INDEX operations_held ON operations (holder) WHERE holder IS NOT NULL;

CREATE INDEX operations_wake    ON operations (wake_at)         WHERE state = 1;
CREATE INDEX operations_pending ON operations (handle, wake_at) WHERE state = 1;
CREATE INDEX operations_failed  ON operations (handle)          WHERE state > 3;
CREATE INDEX operations_nobodys ON operations (handle)          WHERE state > 2 AND delivered = 0 AND holder IS NULL;

-- Completed and delivered operations, up to eight a row, whose handles are between
-- first and the next row's.
CREATE TABLE blocks (
	first INTEGER PRIMARY KEY,
	data  BLOB NOT NULL
) STRICT;

-- Each row is for the operations from first to first + 1023, once the last of them
-- was begun.
CREATE TABLE segments (
	first    INTEGER PRIMARY KEY,
	began_at INTEGER NOT NULL, -- the earliest creation
	spent    INTEGER NOT NULL, -- 1: nothing is left in it to be reaped
	hashes   BLOB              -- of their IDs
) STRICT;

CREATE TABLE sessions (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- One row.
CREATE TABLE journal (
	one      INTEGER PRIMARY KEY CHECK (one = 1),
	identity TEXT NOT NULL,    -- random; the sidecar has it too
	epoch    BLOB NOT NULL     -- see stale.go
) STRICT;
INSERT INTO journal VALUES (1, '', x'');

-- One row in a backup that was not adopted yet; else none.
CREATE TABLE backup (
	one     INTEGER PRIMARY KEY CHECK (one = 1),
	made_at INTEGER NOT NULL,
	number  INTEGER NOT NULL -- of its latest commit
) STRICT;

-- One row for every commit, in their order, with what it made of operations that are
-- nowhere else yet: those whose handle is higher than the latest row's folded. Rows
-- that only speak of others are removed; the latest never is.
CREATE TABLE log (
	seq          INTEGER PRIMARY KEY,
	last_at      INTEGER,          -- the latest time seen, in milliseconds since 1970
	least_margin INTEGER NOT NULL, -- nanoseconds, of the operations with a window; 0: there is none
	newest       INTEGER NOT NULL, -- the latest handle given out
	folded       INTEGER NOT NULL, -- no operation up to this handle is in the log
	number       INTEGER NOT NULL, -- the commit number: see sidecar
	records      BLOB
) STRICT;
INSERT INTO log VALUES (1, NULL, 0, 0, 0, 0, NULL);
` + flowTables}

// migrate brings the schema to this release's version, or refuses the file. It tells
// whether there was anything to do.
func (c *conn) migrate(path string) (migrated bool, err error) {
	version, err := c.recognise(path)
	if err != nil || version == len(migrations) {
		return false, err
	}
	if err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return false, explain(path, "open", err)
	}
	defer func() {
		if err != nil {
			_ = c.exec("ROLLBACK") // SQLite may have done so itself
		}
	}()
	// Another process may have come first.
	if version, err = c.recognise(path); err != nil {
		return false, err
	}
	for ; version < len(migrations); version++ {
		if err := c.exec(migrations[version]); err != nil {
			return false, explain(path, fmt.Sprint("migrate from version ", unreleased+version), err)
		}
	}
	identity := newIdentity()
	if err := c.exec(fmt.Sprintf("UPDATE journal SET identity = '%s', epoch = x'%x' WHERE identity = ''", identity, encodeEpoch(identity, 1))); err != nil {
		return false, explain(path, "migrate", err)
	}
	for _, pragma := range []string{fmt.Sprint("application_id=", applicationID), fmt.Sprint("user_version=", unreleased+version)} {
		if err := c.exec("PRAGMA " + pragma); err != nil {
			return false, explain(path, "migrate", err)
		}
	}
	return true, explain(path, "migrate", c.exec("COMMIT"))
}

// recognise returns the file's schema version, counted from unreleased: 0 for a new
// file, which Litestream may have put tables of its own in. It asks all at once: another process may be migrating
// the file.
func (c *conn) recognise(path string) (int, error) {
	ask, err := c.prepare(`SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),
		(SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE '\_litestream\_%' ESCAPE '\')`)
	var application, version, objects int64
	if err == nil {
		_, err = ask.first(func(row []driver.Value) error {
			application, version, objects = row[0].(int64), row[1].(int64), row[2].(int64)
			return nil
		})
	}
	if code(err) == codes.SQLITE_NOTADB {
		return 0, fmt.Errorf("%w: %s is not a SQLite database; give another path", ErrNotJournal, path)
	}
	if err != nil {
		return 0, explain(path, "open", err)
	}
	switch {
	case application == 0 && version == 0 && objects == 0:
		return 0, nil
	case application != applicationID || version < 1:
		return 0, fmt.Errorf("%w: %s is a SQLite database of something else; give another path", ErrNotJournal, path)
	case version <= unreleased:
		return 0, fmt.Errorf("%w: %s was made before the first release, with a schema that is not read any more; give another path", ErrNotJournal, path)
	case version > unreleased+int64(len(migrations)):
		return 0, fmt.Errorf("%w: %s has schema version %d, this release knows up to %d; upgrade it, or give another path",
			journal.ErrVersion, path, version, unreleased+len(migrations))
	}
	return int(version - unreleased), nil
}
