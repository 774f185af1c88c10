package schema

import (
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/sealed"
)

// ReceiptsVersion is the version of ReceiptTables.
const ReceiptsVersion = 2

// ReceiptTables have a version of their own: a release that changes them neither stops nor is stopped by an older one that
// keeps operations alone. Its parameter is how keys are made of requests. Each receipt costs three pages: of its row and of
// two indices.
const ReceiptTables = `
-- One row.
CREATE TABLE IF NOT EXISTS onceward_receipt_schema (
	one     INTEGER PRIMARY KEY CHECK (one = 1),
	version INTEGER NOT NULL,
	naming  TEXT NOT NULL,             -- how keys are made of requests
	removed INTEGER NOT NULL DEFAULT 0 -- the highest handle of a receipt that is gone: none is used again
) STRICT;
INSERT INTO onceward_receipt_schema (one, version, naming) VALUES (1, 2, ?1) ON CONFLICT DO UPDATE SET naming = excluded.naming WHERE naming = '';
` + receiptRows + `
-- The highest number that was done of each entity.
CREATE TABLE IF NOT EXISTS onceward_heads (
	source TEXT NOT NULL,
	entity TEXT NOT NULL,
	seq    INTEGER NOT NULL,
	PRIMARY KEY (source, entity)
) STRICT, WITHOUT ROWID;
`

const receiptRows = `
-- In the order of creation.
CREATE TABLE IF NOT EXISTS onceward_receipts (
	handle  INTEGER PRIMARY KEY,
	scope   TEXT NOT NULL,
	key     TEXT NOT NULL,
	place   TEXT NOT NULL,
	state   INTEGER NOT NULL,
	ends_at INTEGER NOT NULL, -- when something of it is to be reaped next; 9223372036854775807: never
	facts   BLOB NOT NULL,    -- JSON, and the sum of the row
	answer  BLOB,
	body    BLOB              -- the last one: a list reads no page that only has a part of it
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS onceward_receipts_key ON onceward_receipts (scope, key);
CREATE INDEX IF NOT EXISTS onceward_receipts_ends ON onceward_receipts (ends_at);
`

// receiptsVersion returns the version of the receipts' tables in the file, or 0 without any.
func receiptsVersion(c *conn.Conn) (version int64, err error) {
	made, err := c.Value("SELECT count(*) FROM sqlite_schema WHERE name = 'onceward_receipt_schema'")
	if err != nil || made == int64(0) {
		return 0, err
	}
	v, err := c.Value("SELECT version FROM onceward_receipt_schema")
	version, _ = v.(int64)
	return version, err
}

// MigrateReceipts brings the receipts of version 1 to this release's version, in one transaction. It reports whether it has.
//
// A process of the release before may have the file open. It records no receipt from then on: it reads onceward_receipt_bodies
// with each one that it looks for, and before each that it writes, and that table is gone.
func MigrateReceipts(c *conn.Conn, path string) (migrated bool, err error) {
	version, err := receiptsVersion(c)
	if err != nil || version != 1 {
		return false, conn.Explain(path, "open", err)
	}
	defer func() {
		if err != nil {
			_ = c.Exec("ROLLBACK") // SQLite may have done so itself
			err = conn.Explain(path, "migrate the receipts", err)
		}
	}()
	// Otherwise a rename also reads the application's views, and fails if one of them is broken.
	if err := c.Exec("PRAGMA legacy_alter_table=ON"); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, c.Exec("PRAGMA legacy_alter_table=OFF")) }()
	if err := c.Exec("BEGIN IMMEDIATE"); err != nil {
		return false, err
	}
	// Another process may have come first.
	if version, err = receiptsVersion(c); err != nil || version != 1 {
		return false, errors.Join(err, c.Exec("ROLLBACK"))
	}
	for _, statement := range []string{
		"ALTER TABLE onceward_receipt_schema ADD COLUMN removed INTEGER NOT NULL DEFAULT 0",
		"UPDATE onceward_receipt_schema SET version = 2, removed = coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'onceward_receipts'), 0)",
		"ALTER TABLE onceward_receipts RENAME TO onceward_receipts_1",
		"DROP INDEX onceward_receipts_key",
		"DROP INDEX onceward_receipts_ends",
		"DROP INDEX IF EXISTS onceward_receipts_reserved",
		receiptRows,
		"INSERT INTO onceward_receipts SELECT r.*, (SELECT body FROM onceward_receipt_bodies b WHERE b.handle = r.handle) FROM onceward_receipts_1 r ORDER BY handle",
		"DROP TABLE onceward_receipts_1",
		"DROP TABLE onceward_receipt_bodies",
	} {
		if err := c.Exec(statement); err != nil {
			return false, err
		}
	}
	if err := reserveForEver(c); err != nil {
		return false, err
	}
	return true, c.Exec("COMMIT")
}

// reserveForEver gives the reserved receipts of version 1 another ends_at. A damaged one stays as it is.
func reserveForEver(c *conn.Conn) error {
	reserved, err := c.Prepare("SELECT " + format.ReceiptColumns + " FROM onceward_receipts WHERE state = 1")
	if err != nil {
		return err
	}
	update, err := c.Prepare("UPDATE onceward_receipts SET ends_at = ?, facts = ? WHERE handle = ?")
	if err != nil {
		return err
	}
	var all []journal.Receipt
	err = reserved.Each(func(v []driver.Value) error {
		if r, _, err := format.ReadReceipt(v); err == nil {
			all = append(all, r)
		}
		return nil
	})
	for _, r := range all {
		if err == nil {
			args, _ := sealed.ReceiptArgs(&r, -1)
			_, err = update.Exec(args[4], args[5], r.Handle)
		}
	}
	return err
}

// SkipReceipts makes the next handles of receipts higher than any that the journal can have given out since a copy of it was made. A
// person who saw one of those before an adoption then names no other receipt by its handle.
func SkipReceipts(c *conn.Conn) error {
	version, err := receiptsVersion(c)
	if err != nil || version != ReceiptsVersion {
		return err
	}
	return c.Exec("UPDATE onceward_receipt_schema SET removed = max(removed, (SELECT coalesce(max(handle), 0) FROM onceward_receipts)) + 10000000000")
}

// olderReceipts rejects a file whose receipts would have to be migrated.
func olderReceipts(c *conn.Conn, path string) error {
	version, err := receiptsVersion(c)
	if err == nil && version > 0 && version < ReceiptsVersion {
		return fmt.Errorf("%w: the receipts in %s have version %d, of an older release than this, and are left as they are (Options.NoMigration): "+
			"open it with that release, or without this option, after which older releases refuse it", journal.ErrVersion, path, version)
	}
	return conn.Explain(path, "open", err)
}
