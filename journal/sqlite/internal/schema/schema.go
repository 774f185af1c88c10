// Package schema makes the journal's tables in a file and brings them to this release's version. It rejects files of
// other programs, of newer releases, and of another deployment.
//
// It knows the definition of each table and the file's owner. It must not know a record or a writer: it runs before the
// journal is open.
package schema

import (
	"cmp"
	"database/sql/driver"
	"errors"
	"fmt"

	codes "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/sidecar"
)

// ErrNotJournal is sqlite.ErrNotJournal, and ErrDeployment sqlite.ErrDeployment.
var (
	ErrNotJournal = errors.New("sqlite: not a journal")
	ErrDeployment = errors.New("sqlite: the journal of another deployment")
)

// Options are the fields of sqlite.Options by which a file is accepted.
type Options struct {
	Deployment                      string
	Existing, ReadOnly, NoMigration bool
}

// applicationID marks our files in SQLite's header: "Once" in ASCII. An application that shares the file may
// change it and user_version, so only the journal's own table counts.
const applicationID = 0x4f6e6365

// Migrations lead from the version that is their index to the next. They run in one
// transaction. A version that was committed is never edited: TestSchemaFile holds a file of each. Names begin with
// onceward_, since the application may have tables in the same file.
var Migrations = []string{`
-- One row.
CREATE TABLE onceward_schema (
	one     INTEGER PRIMARY KEY CHECK (one = 1),
	version INTEGER NOT NULL
) STRICT;
INSERT INTO onceward_schema VALUES (1, 0);

-- Those that are neither in the log nor in a block, one row each, in the order of
-- creation. A handle is never used again.
CREATE TABLE onceward_operations (
	handle       INTEGER PRIMARY KEY,
	scope        TEXT NOT NULL,
	parent       TEXT NOT NULL,
	id           TEXT NOT NULL,
	naming       INTEGER NOT NULL,
	identified   INTEGER NOT NULL, -- 1: in the unique index; 0: found by segments.hashes
	provider     TEXT NOT NULL,
	state        INTEGER NOT NULL,
	holder       TEXT,             -- NULL: nobody
	wake_at      INTEGER,          -- milliseconds since 1970, as all times; of an unknown one, when it is looked for; 0: somebody has to see to it
	settled_at   INTEGER,
	delivered    INTEGER NOT NULL,
	tombstone    INTEGER NOT NULL,
	facts        BLOB NOT NULL,
	request      BLOB,
	request_body BLOB
) STRICT;

-- Beside the operation, so that its row need not grow when the answer comes: rows
-- that grow split their pages. NULL bodies are also empty ones.
CREATE TABLE onceward_answers (
	handle INTEGER PRIMARY KEY,
	answer BLOB NOT NULL,
	body   BLOB
) STRICT;

-- Random keys would dirty a page of this index for every operation: those that we
-- made need no uniqueness check, and are kept out of it.
CREATE UNIQUE INDEX onceward_operations_identity ON onceward_operations (id, scope, parent) WHERE identified = 1;

CREATE INDEX onceward_operations_held ON onceward_operations (holder) WHERE holder IS NOT NULL;

CREATE INDEX onceward_operations_wake    ON onceward_operations (wake_at)         WHERE state = 1;
CREATE INDEX onceward_operations_pending ON onceward_operations (handle, wake_at) WHERE state = 1;
CREATE INDEX onceward_operations_failed  ON onceward_operations (handle)          WHERE state > 3;
CREATE INDEX onceward_operations_looks   ON onceward_operations (wake_at)         WHERE state = 4;
CREATE INDEX onceward_operations_dead    ON onceward_operations (handle)          WHERE state > 2 AND wake_at = 0;
CREATE INDEX onceward_operations_nobodys ON onceward_operations (handle)          WHERE state > 2 AND delivered = 0 AND holder IS NULL;

-- Completed and delivered operations, up to eight a row, whose handles are between
-- first and the next row's.
CREATE TABLE onceward_blocks (
	first INTEGER PRIMARY KEY,
	data  BLOB NOT NULL
) STRICT;

-- Each row is for the operations from first to first + 1023, once the last of them
-- was begun. None is missing: none is ever removed.
CREATE TABLE onceward_segments (
	first    INTEGER PRIMARY KEY,
	began_at INTEGER NOT NULL, -- the earliest creation
	spent    INTEGER NOT NULL, -- 1: nothing is left in it to be reaped
	hashes   BLOB NOT NULL     -- of their names, and the sum of the row
) STRICT;

-- A row for a segment that is not spent and had operations removed.
CREATE TABLE onceward_removed (
	first INTEGER PRIMARY KEY,
	bits  BLOB NOT NULL -- one for each of its operations, and the sum of the row
) STRICT;

CREATE TABLE onceward_sessions (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- One row.
CREATE TABLE onceward_journal (
	one      INTEGER PRIMARY KEY CHECK (one = 1),
	identity TEXT NOT NULL,    -- random; the sidecar has it too
	epoch    BLOB NOT NULL,    -- see stale.go
	hash_key BLOB NOT NULL     -- see hashKey
) STRICT;
INSERT INTO onceward_journal VALUES (1, '', x'', x'');

-- One row in a backup that was not adopted yet; else none.
CREATE TABLE onceward_backup (
	one     INTEGER PRIMARY KEY CHECK (one = 1),
	made_at INTEGER NOT NULL,
	number  INTEGER NOT NULL -- of its latest commit
) STRICT;

-- One row for every commit, in their order, with what it made of operations that are
-- nowhere else yet: those whose handle is higher than the latest row's folded. Rows
-- that only speak of others are removed; the latest never is.
CREATE TABLE onceward_log (
	seq          INTEGER PRIMARY KEY,
	last_at      INTEGER,          -- the latest time seen, in milliseconds since 1970
	jumped_at    INTEGER,          -- where the clock has jumped to, until that is confirmed
	least_margin INTEGER NOT NULL, -- nanoseconds, of the operations with a window; 0: there is none
	newest       INTEGER NOT NULL, -- the latest handle given out
	folded       INTEGER NOT NULL, -- no operation up to this handle is in the log
	number       INTEGER NOT NULL, -- the commit number: see sidecar
	records      BLOB NOT NULL     -- and the sum of the row
) STRICT;
` + flowTables + markTables, outboxTables, contentTables, OwnerTables, outboxIndex, sweepTables}

// Migrate brings the schema to this release's version, or rejects the file. It reports whether anything
// changed.
func Migrate(c *conn.Conn, path string, opts Options) (migrated bool, err error) {
	version, _, err := Recognise(c, path, opts)
	if err != nil || version == len(Migrations) {
		return migrated, err
	}
	if err := c.Exec("BEGIN IMMEDIATE"); err != nil {
		return migrated, conn.Explain(path, "open", err)
	}
	defer func() {
		if err != nil {
			_ = c.Exec("ROLLBACK") // SQLite may have done so itself
		}
	}()
	// Another process may have come first.
	version, shared, err := Recognise(c, path, opts)
	if err != nil {
		return migrated, err
	}
	for ; version < len(Migrations); version++ {
		if err := c.Exec(Migrations[version]); err != nil {
			return migrated, conn.Explain(path, fmt.Sprint("migrate from version ", version), err)
		}
	}
	identity := sidecar.NewIdentity()
	for _, statement := range []string{
		fmt.Sprintf("INSERT INTO onceward_log SELECT 1, NULL, NULL, 0, 0, 0, 0, x'%x' WHERE NOT EXISTS (SELECT 1 FROM onceward_log)", format.LogRow{Seq: 1}.Seal(nil)),
		fmt.Sprintf("UPDATE onceward_journal SET identity = '%s', epoch = x'%x', hash_key = x'%x' WHERE identity = ''",
			identity, format.EncodeEpoch(identity, 1), format.NewHashKey().Sealed()),
		fmt.Sprint("UPDATE onceward_schema SET version = ", version),
	} {
		if err := c.Exec(statement); err != nil {
			return migrated, conn.Explain(path, "migrate", err)
		}
	}
	is, err := ownerOf(c)
	if err == nil {
		var update *conn.Stmt
		if update, err = c.Prepare(WriteOwner); err == nil {
			err = is.After(opts).Write(update) // in the same commit, so that a new file costs no other
		}
	}
	if err != nil {
		return migrated, conn.Explain(path, "migrate", err)
	}
	if application, err := c.Value("PRAGMA application_id"); err != nil || application == int64(0) && !shared {
		if err == nil {
			err = c.Exec(fmt.Sprint("PRAGMA application_id=", applicationID))
		}
		if err != nil {
			return migrated, conn.Explain(path, "migrate", err)
		}
	}
	return true, conn.Explain(path, "migrate", c.Exec("COMMIT"))
}

// IsTheirs is true for the application's objects in the file, not for the journal's or Litestream's.
const IsTheirs = `tbl_name NOT LIKE 'onceward\_%' ESCAPE '\' AND tbl_name NOT LIKE '\_litestream\_%' ESCAPE '\'`

// Recognise returns the file's schema version, or 0 without a journal, and whether the application has
// anything in the file. Names of tables have no case (https://sqlite.org/lang_keywords.html), and neither has
// LIKE.
func Recognise(c *conn.Conn, path string, opts Options) (is int, shared bool, err error) {
	ask, err := c.Prepare(`SELECT (SELECT application_id FROM pragma_application_id),
		(SELECT count(*) FROM sqlite_schema WHERE ` + IsTheirs + `),
		(SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'onceward_schema'),
		(SELECT min(name) FROM sqlite_schema WHERE name LIKE 'onceward\_%' ESCAPE '\'),
		(SELECT encoding FROM pragma_encoding),
		(SELECT count(*) FROM sqlite_schema WHERE name = 'onceward_flows') > (SELECT count(*) FROM sqlite_schema WHERE name = 'onceward_flows_aside')`)
	var application, theirs, ours, version, early int64
	var taken, encoding string
	if err == nil {
		_, err = ask.First(func(row []driver.Value) error {
			application, theirs, ours, encoding, early = row[0].(int64), row[1].(int64), row[2].(int64), row[4].(string), row[5].(int64)
			taken, _ = row[3].(string)
			return nil
		})
	}
	if err == nil && ours > 0 {
		if ask, err = c.Prepare("SELECT version FROM onceward_schema"); err == nil {
			_, err = ask.First(func(row []driver.Value) error { version = row[0].(int64); return nil })
		}
	}
	if conn.Code(err) == codes.SQLITE_NOTADB {
		return is, shared, fmt.Errorf("%w: %s is not a SQLite database; give another path", ErrNotJournal, path)
	}
	if err != nil {
		return is, shared, conn.Explain(path, "open", err)
	}
	switch {
	case ours == 0 && application == applicationID:
		return is, shared, fmt.Errorf("%w: %s was made before the first release, with a schema that is not read any more; give another path", ErrNotJournal, path)
	case ours == 0 && taken != "":
		return is, shared, fmt.Errorf("%w: %s has no journal in it, but something named %s, and names that begin with onceward_ are the journal's: "+
			"rename it, or give another path", ErrNotJournal, path, taken)
	case ours == 0 && encoding != "UTF-8":
		// A name is any bytes, and so is an error's text. In another encoding SQLite would return other
		// bytes.
		return is, shared, fmt.Errorf("%w: %s keeps its text in %s, which can't be changed, and a journal needs UTF-8; give another path", ErrNotJournal, path, encoding)
	case ours == 0 && theirs > 0 && opts.NoMigration:
		return is, shared, fmt.Errorf("%w: %s is a database with no journal in it, and none is made there (Options.NoMigration); give another path", ErrNotJournal, path)
	case ours == 0:
		return 0, theirs > 0, nil
	case version < 1:
		return is, shared, fmt.Errorf("%w: %s has no schema version: the file is damaged; keep a copy of it, and restore a backup", ErrNotJournal, path)
	case version > int64(len(Migrations)):
		return is, shared, TooNew(path, version)
	case early != 0: // version 1 was edited after files had been made by it
		return is, shared, fmt.Errorf("%w: %s has no index onceward_flows_aside: it was made by a development version from before schema version 1 was complete, "+
			"and is not migrated; give another path", ErrNotJournal, path)
	case version < int64(len(Migrations)) && opts.NoMigration:
		return is, shared, fmt.Errorf("%w: %s has schema version %d, of an older release than this, and is left as it is (Options.NoMigration): "+
			"open it with that release, or without this option, after which older releases refuse it", journal.ErrVersion, path, version)
	}
	if version >= ownerSince {
		is, err := ownerOf(c)
		if err := cmp.Or(conn.Explain(path, "open", err), is.Refuses(path, opts)); err != nil {
			return 0, shared, err
		}
	}
	if opts.NoMigration {
		if err := olderReceipts(c, path); err != nil {
			return 0, shared, err
		}
	}
	return int(version), theirs > 0, nil
}

// TooNew returns journal.ErrVersion for a file of a newer release.
func TooNew(path string, version int64) error {
	return fmt.Errorf("%w: %s has schema version %d, this release knows up to %d; upgrade it, or give another path",
		journal.ErrVersion, path, version, len(Migrations))
}

// Unchanged rejects a file whose schema another process, of a newer release, changed since this one opened
// it.
func Unchanged(path string, version int64) error {
	if version == int64(len(Migrations)) {
		return nil
	}
	return fmt.Errorf("%w: %s was migrated to schema version %d while it was open, and this release knows up to %d; "+
		"nothing is recorded any more: end this process, and start one of the newer release", journal.ErrVersion, path, version, len(Migrations))
}
