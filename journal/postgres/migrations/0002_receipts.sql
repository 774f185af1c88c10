-- A receipt is the record of a request or a message that was received under a key. The application's own transactions write
-- receipts. Names are bytes, as those of operations are.
CREATE TABLE {{schema}}.receipts (
  handle bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  identity bytea NOT NULL,                -- digest of scope and key
  scope bytea NOT NULL, key bytea NOT NULL, place bytea NOT NULL,
  state smallint NOT NULL,
  ends_at bigint NOT NULL,                -- when something of it is to be reaped next
  written_in xid8 NOT NULL,               -- the transaction that wrote it last
  facts bytea NOT NULL, answer bytea, body bytea
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
-- Neither index has the state in it: to complete a receipt touches no index.
CREATE UNIQUE INDEX receipts_identity ON {{schema}}.receipts (identity);
CREATE INDEX receipts_ends ON {{schema}}.receipts (ends_at);

-- How keys are made of requests; '': that was not said yet.
CREATE TABLE {{schema}}.receipt_naming (one smallint PRIMARY KEY DEFAULT 1 CHECK (one = 1), naming text NOT NULL);
INSERT INTO {{schema}}.receipt_naming (naming) VALUES ('');

-- The highest number that was done of each entity of a source, by a digest of both.
CREATE TABLE {{schema}}.heads (
  identity bytea PRIMARY KEY,
  source bytea NOT NULL, entity bytea NOT NULL, seq bigint NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

UPDATE {{schema}}.journal SET schema_version = 2;
