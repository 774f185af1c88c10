package schema

// contentTables is for lists that no index knows the answer of.
const contentTables = `
-- What the operations of a segment have that lists select by and no index does, their scopes and
-- providers: hashes. It is written with the segment; one that was sealed by an older release has no row, and
-- may have anything. Before that a row has what operations have become since they were begun.
CREATE TABLE onceward_contents (
	first  INTEGER PRIMARY KEY,
	hashes BLOB NOT NULL -- and the sum of the row
) STRICT;
`

// flowTables are the tables of flows.
const flowTables = `
-- One row each, in the order of creation. None is ever removed.
CREATE TABLE onceward_flows (
	handle    INTEGER PRIMARY KEY,
	scope     TEXT NOT NULL,
	parent    TEXT NOT NULL,
	id        TEXT NOT NULL,
	function  TEXT NOT NULL,
	version   INTEGER NOT NULL,
	state     INTEGER NOT NULL,
	holder    TEXT,             -- NULL: nobody
	claim     INTEGER NOT NULL,
	due_at    INTEGER,
	ended_at  INTEGER,
	tombstone INTEGER NOT NULL,
	facts     BLOB NOT NULL,    -- JSON, and the sum of the row
	input     BLOB
) STRICT;

CREATE UNIQUE INDEX onceward_flows_identity ON onceward_flows (id, scope, parent);
CREATE INDEX onceward_flows_held  ON onceward_flows (holder)                    WHERE holder IS NOT NULL;
CREATE INDEX onceward_flows_due   ON onceward_flows (due_at, function, version) WHERE state = 2;
CREATE INDEX onceward_flows_aside ON onceward_flows (handle)                    WHERE state = 5;
CREATE INDEX onceward_flows_ended ON onceward_flows (ended_at)                  WHERE ended_at IS NOT NULL AND tombstone = 0;

-- A flow's steps lie together.
CREATE TABLE onceward_flow_steps (
	flow     INTEGER NOT NULL,
	seq      INTEGER NOT NULL,
	kind     INTEGER NOT NULL,
	name     TEXT NOT NULL,
	position INTEGER NOT NULL,
	parallel INTEGER NOT NULL,
	at       INTEGER NOT NULL,
	result   BLOB,              -- JSON, but for the text of a failure
	sum      INTEGER NOT NULL,  -- of the row
	PRIMARY KEY (flow, seq)
) STRICT, WITHOUT ROWID;
`

// markTables hold the marks by which operations can be recognised, and the events that were heard.
const markTables = `
-- What operations that are not in the log can be found by: hashes of keys, references and
-- objects, of those that have no answer, and of those that have more than a key. Only what
-- lies near each other is written at a time: those of 4096 operations. Bucket -1 has the
-- objects that were found by a look or an event.
CREATE TABLE onceward_marks (
	bucket INTEGER NOT NULL,
	hash   INTEGER NOT NULL,
	handle INTEGER NOT NULL,
	PRIMARY KEY (bucket, hash, handle)
) STRICT, WITHOUT ROWID;

-- Events that were heard, by a hash of the provider, its account and their ID.
CREATE TABLE onceward_heard (
	hash BLOB PRIMARY KEY, -- and the sum of the row
	at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX onceward_heard_at ON onceward_heard (at);
`

// outboxTables hold the records of the application's transactions.
const outboxTables = `
-- What was recorded in transactions of the application's and is in no commit of the journal's yet, in
-- their order: the next commit of whichever process takes all of it in.
CREATE TABLE onceward_outbox (
	seq    INTEGER PRIMARY KEY,
	kind   INTEGER NOT NULL,
	handle INTEGER NOT NULL, -- of the operation
	scope  TEXT NOT NULL,
	parent TEXT NOT NULL,
	id     TEXT NOT NULL,
	record BLOB NOT NULL     -- and the sum of the row
) STRICT;

CREATE INDEX onceward_outbox_names ON onceward_outbox (id, scope, parent);
`

// outboxIndex is for the latest handle, which each that is enqueued asks for, and for an operation by its second name.
const outboxIndex = `
CREATE INDEX onceward_outbox_handles ON onceward_outbox (handle);
`

// sweepTables are for sweeps of many operations.
const sweepTables = `
-- Events of the clock that operations up to the handle through have still to be given, in their order: those whose handle is
-- higher than position, and that are not in onceward_swept. No row: there is no such event.
CREATE TABLE onceward_sweeps (
	seq      INTEGER PRIMARY KEY,
	at       INTEGER NOT NULL,
	last_at  INTEGER,
	since    INTEGER,
	through  INTEGER NOT NULL,
	position INTEGER NOT NULL,
	sum      INTEGER NOT NULL  -- of the row
) STRICT;

-- Operations after the position of a sweep that have been given its event, since they have changed.
CREATE TABLE onceward_swept (
	sweep  INTEGER NOT NULL,
	handle INTEGER NOT NULL,
	PRIMARY KEY (sweep, handle)
) STRICT, WITHOUT ROWID;
`

// HookTable makes the table that says whether outcomes are for a hook. A journal of a program without hooks has none.
const HookTable = `CREATE TABLE IF NOT EXISTS onceward_hook (
	one  INTEGER PRIMARY KEY CHECK (one = 1),
	kept INTEGER NOT NULL -- 1: they are
) STRICT`
