-- {{s}} stands for the quoted name of the journal's database. Times of events are milliseconds since 1970 by the callers'
-- clocks. Times of leases are microseconds since 1970 by the server's clock. All texts are bytes, so no collation folds a
-- name. Each statement may run again.

CREATE TABLE IF NOT EXISTS {{s}}.journal (
  one TINYINT NOT NULL PRIMARY KEY,
  id VARBINARY(64) NOT NULL,              -- of the journal, random
  digest_key VARBINARY(64) NOT NULL,      -- of all digests: 16 random bytes, and their SHA-256
  deployment BLOB,                        -- whose journal it is: the first Open says so
  epoch BIGINT NOT NULL,                  -- raised by Adopt and Confirm
  schema_version INT NOT NULL,
  least_writer INT NOT NULL,              -- the least release of this store's that may write, by its number
  hooked TINYINT NOT NULL,                -- outcomes are for a hook of some program
  leaps MEDIUMBLOB NOT NULL,              -- of the clock, that an operation may not have been told
  naming BLOB NOT NULL,                   -- how keys of receipts are made of requests
  sealed BLOB NOT NULL,                   -- the keys that have sealed payloads
  place BLOB,                             -- the server's identity when it was seen last
  restored BLOB,                          -- why it counts as restored; NULL: it doesn't
  witnessed BIGINT NOT NULL,              -- a number that the witness has, if there is one
  history MEDIUMBLOB NOT NULL             -- who adopted or confirmed it, a line each
) ENGINE=InnoDB;

-- The journal's id once more, in a row that no transaction changes. So the application's transaction can read the id with a lock that
-- meets no other lock. A read without a lock would begin the snapshot of a transaction of repeatable reads.
CREATE TABLE IF NOT EXISTS {{s}}.identity (one TINYINT NOT NULL PRIMARY KEY, id VARBINARY(64) NOT NULL) ENGINE=InnoDB;

-- Each process takes handles in blocks of 1024. Handles of operations carry the epoch from bit 40 on.
CREATE TABLE IF NOT EXISTS {{s}}.handles (name VARBINARY(16) NOT NULL PRIMARY KEY, next BIGINT NOT NULL) ENGINE=InnoDB;
INSERT INTO {{s}}.handles VALUES ('operations', 1099511627777), ('receipts', 1), ('flows', 1) ON DUPLICATE KEY UPDATE next = next;

-- A session holds operations. Its process, which is a session too, writes. A session lives as long as its row is there
-- and is not buried.
CREATE TABLE IF NOT EXISTS {{s}}.sessions (
  id VARBINARY(64) NOT NULL PRIMARY KEY,
  process VARBINARY(64) NOT NULL,
  epoch BIGINT NOT NULL,
  beats BIGINT NOT NULL DEFAULT 0,
  expires_at BIGINT NOT NULL,
  buried_at BIGINT,
  started_at BIGINT NOT NULL,
  host BLOB NOT NULL, pid BIGINT NOT NULL,
  KEY process (process)
) ENGINE=InnoDB;

-- A lane is for one transaction after another of a process. Each commit raises the lane's batch, which shows whether the
-- commit has landed. A process that has to know that another one commits nothing more raises the tenure.
CREATE TABLE IF NOT EXISTS {{s}}.lanes (
  process VARBINARY(64) NOT NULL, lane BIGINT NOT NULL,
  batch BIGINT NOT NULL DEFAULT 0,
  tenure BIGINT NOT NULL DEFAULT 0,
  seq BIGINT NOT NULL DEFAULT 0,          -- the place of the latest commit among all lanes' commits
  last_at BIGINT NOT NULL DEFAULT 0,      -- the latest time
  jumped_at BIGINT NOT NULL DEFAULT 0,    -- where the callers' clock has jumped to; 0: nowhere
  least_margin BIGINT NOT NULL DEFAULT 0, -- in nanoseconds; 0: none
  ahead_at BIGINT NOT NULL DEFAULT 0,     -- the latest time of a clock that was set back; 0: none was
  PRIMARY KEY (process, lane)
) ENGINE=InnoDB;

-- Least margins that came with the application's transactions.
CREATE TABLE IF NOT EXISTS {{s}}.margins (id VARBINARY(64) NOT NULL PRIMARY KEY, least_margin BIGINT NOT NULL) ENGINE=InnoDB;

-- There are no partial indexes. Columns that are NULL for rows outside of an index take their place: open_state is NULL for a
-- completed operation, untold unless an outcome waits for its delivery, reap_at unless the row is to be reaped.
CREATE TABLE IF NOT EXISTS {{s}}.operations (
  handle BIGINT NOT NULL PRIMARY KEY,
  state TINYINT UNSIGNED NOT NULL, holder VARBINARY(64), wake_at BIGINT, settled_at BIGINT,
  delivered TINYINT NOT NULL, tombstone TINYINT NOT NULL,
  provider BLOB NOT NULL, facts MEDIUMBLOB NOT NULL,
  open_state TINYINT UNSIGNED, untold TINYINT, reap_at BIGINT,
  KEY holder (holder),
  KEY opened (open_state),
  KEY wake (open_state, wake_at),
  KEY untold (untold),
  KEY reap (reap_at)
) ENGINE=InnoDB;

-- Each name of an operation, as a digest.
CREATE TABLE IF NOT EXISTS {{s}}.names (digest BINARY(16) NOT NULL PRIMARY KEY, handle BIGINT NOT NULL) ENGINE=InnoDB;
CREATE TABLE IF NOT EXISTS {{s}}.requests (handle BIGINT NOT NULL PRIMARY KEY, head MEDIUMBLOB NOT NULL, body LONGBLOB) ENGINE=InnoDB;
CREATE TABLE IF NOT EXISTS {{s}}.answers (handle BIGINT NOT NULL PRIMARY KEY, head MEDIUMBLOB NOT NULL, body LONGBLOB) ENGINE=InnoDB;

-- Operations are recognized by these besides their names: digests of keys, references and objects. Handle 0 is an
-- operation that was reaped. A transaction that may add a mark locks the mark's slot first.
CREATE TABLE IF NOT EXISTS {{s}}.marks (mark BIGINT NOT NULL, handle BIGINT NOT NULL, PRIMARY KEY (mark, handle)) ENGINE=InnoDB;
CREATE TABLE IF NOT EXISTS {{s}}.mark_slots (slot INT NOT NULL PRIMARY KEY) ENGINE=InnoDB;

-- Events of providers that were heard, by a digest of the provider, its account and their ID.
CREATE TABLE IF NOT EXISTS {{s}}.heard (digest VARBINARY(64) NOT NULL PRIMARY KEY, heard_at BIGINT NOT NULL, KEY heard_at (heard_at)) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS {{s}}.flows (
  handle BIGINT NOT NULL PRIMARY KEY,
  name BINARY(16) NOT NULL,               -- digest of scope, parent and id
  scope BLOB NOT NULL, parent BLOB NOT NULL, id BLOB NOT NULL,
  `function` BLOB NOT NULL, version BIGINT NOT NULL,
  state TINYINT UNSIGNED NOT NULL, holder VARBINARY(64), due_at BIGINT, ended_at BIGINT,
  tombstone TINYINT NOT NULL, claim BIGINT NOT NULL, facts MEDIUMBLOB NOT NULL, input LONGBLOB,
  reap_at BIGINT,                         -- ended_at; NULL for a tombstone
  UNIQUE KEY name (name),
  KEY states (state),
  KEY due (state, due_at),
  KEY reap (reap_at)
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS {{s}}.flow_steps (
  flow BIGINT NOT NULL, seq BIGINT NOT NULL,
  kind TINYINT UNSIGNED NOT NULL, name BLOB NOT NULL, place BIGINT NOT NULL, beside TINYINT NOT NULL, noted_at BIGINT NOT NULL,
  result LONGBLOB, checksum BIGINT NOT NULL,
  PRIMARY KEY (flow, seq)
) ENGINE=InnoDB;

-- A receipt is the record of a request or a message that was received under a key. The application's own transactions
-- write receipts.
CREATE TABLE IF NOT EXISTS {{s}}.receipts (
  handle BIGINT NOT NULL PRIMARY KEY,
  identity BINARY(32) NOT NULL,           -- digest of scope and key
  written BIGINT NOT NULL,                -- a random number of the latest write
  scope BLOB NOT NULL, key_text BLOB NOT NULL, place BLOB NOT NULL,
  state TINYINT UNSIGNED NOT NULL,
  ends_at BIGINT NOT NULL,                -- when something of it is to be reaped next
  facts MEDIUMBLOB NOT NULL, answer MEDIUMBLOB, body LONGBLOB,
  UNIQUE KEY identity (identity),
  KEY ends (ends_at)
) ENGINE=InnoDB;

-- The highest number that was done of each entity of a source, by a digest of both, and the number before that.
CREATE TABLE IF NOT EXISTS {{s}}.heads (
  identity BINARY(32) NOT NULL PRIMARY KEY,
  source BLOB NOT NULL, entity BLOB NOT NULL, seq BIGINT NOT NULL, was BIGINT
) ENGINE=InnoDB;

-- How far lists were read. The record ends with a checksum of the row.
CREATE TABLE IF NOT EXISTS {{s}}.bookmarks (name VARBINARY(1024) NOT NULL PRIMARY KEY, version BIGINT NOT NULL, record MEDIUMBLOB NOT NULL) ENGINE=InnoDB;
