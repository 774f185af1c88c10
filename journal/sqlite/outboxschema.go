package sqlite

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
