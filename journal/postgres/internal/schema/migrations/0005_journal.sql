-- {{schema}} stands for the quoted name of the journal's schema. Times of events are milliseconds since 1970 by the
-- callers' clocks. Times of leases are by the server's clock, and are compared with nothing else.

-- Each process takes handles in blocks of 1024. Those of operations carry the epoch from bit 40 on.
CREATE SEQUENCE {{schema}}.handles AS bigint MINVALUE 1 START WITH 1099511627777 INCREMENT BY 1024;
CREATE SEQUENCE {{schema}}.receipt_handles AS bigint INCREMENT BY 1024;
CREATE SEQUENCE {{schema}}.flow_handles AS bigint INCREMENT BY 1024;
CREATE SEQUENCE {{schema}}.commits AS bigint;

CREATE TABLE {{schema}}.journal (
  one smallint PRIMARY KEY DEFAULT 1 CHECK (one = 1),
  id text NOT NULL,                       -- of the journal, random
  key bytea NOT NULL,                     -- of all digests: 16 random bytes, and their SHA-256
  deployment text,                        -- whose it is: the first Open says so
  epoch bigint NOT NULL DEFAULT 1,        -- raised by Adopt and Confirm
  schema_version int NOT NULL,
  least_writer int NOT NULL,              -- the least release of this store's that may write to it, by its number
  hooked boolean NOT NULL DEFAULT false,  -- outcomes are for a hook of some program
  leaps text NOT NULL DEFAULT '',         -- of the clock, that an operation may not have been told
  naming text NOT NULL DEFAULT '',        -- how keys of receipts are made of requests; '': that was not said yet
  system_identifier text, database_oid text, table_oid text, timeline text, -- where it lay when it was seen last
  restored text,                          -- why it counts as restored; NULL: it doesn't
  promoted text,                          -- a timeline that is new, until all processes that live have found their commits
  witnessed bigint NOT NULL DEFAULT 0,    -- a number that the witness has, if there is one
  history text NOT NULL DEFAULT ''        -- who adopted, confirmed or reset it, a line each
);

-- A session holds operations. Its process, which is a session too, writes. A session lives as long as its row is there
-- and is not buried.
CREATE TABLE {{schema}}.sessions (
  id text PRIMARY KEY,
  process text NOT NULL,
  epoch bigint NOT NULL,
  beats bigint NOT NULL DEFAULT 0,
  expires_at timestamptz NOT NULL,
  buried_at timestamptz,
  timeline text,                          -- of a process: the one on which it has found its commits
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  host text NOT NULL DEFAULT '', pid int NOT NULL DEFAULT 0
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX sessions_process ON {{schema}}.sessions (process);

-- A lane is for one transaction after another of a process. Each commit raises its batch, which shows whether the commit
-- has landed. A process that has to know that it commits nothing more raises its tenure.
CREATE TABLE {{schema}}.lanes (
  process text NOT NULL, lane int NOT NULL,
  batch bigint NOT NULL DEFAULT 0,
  tenure bigint NOT NULL DEFAULT 0,
  seq bigint NOT NULL DEFAULT 0,          -- the place of its latest commit among all lanes' commits
  last_at bigint NOT NULL DEFAULT 0,      -- the latest time
  jumped_at bigint NOT NULL DEFAULT 0,    -- where the callers' clock has jumped to; 0: it has not
  least_margin bigint NOT NULL DEFAULT 0, -- in nanoseconds; 0: none
  ahead_at bigint NOT NULL DEFAULT 0,     -- the latest time of a clock that was set back; 0: none was
  PRIMARY KEY (process, lane)
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0.02);

-- Texts of callers and providers are bytes: they may hold NUL, and what is not UTF-8.
CREATE TABLE {{schema}}.operations (
  handle bigint PRIMARY KEY,
  state smallint NOT NULL, holder text, wake_at bigint, settled_at bigint,
  delivered boolean NOT NULL, tombstone boolean NOT NULL,
  provider bytea NOT NULL, facts bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE INDEX operations_holder ON {{schema}}.operations (holder, handle) WHERE holder IS NOT NULL;
CREATE INDEX operations_wake ON {{schema}}.operations (wake_at, handle) WHERE state = 1;
CREATE INDEX operations_pending ON {{schema}}.operations (handle) WHERE state = 1;
CREATE INDEX operations_looks ON {{schema}}.operations (wake_at, handle) WHERE state = 4;
CREATE INDEX operations_unanswered ON {{schema}}.operations (handle) WHERE state <> 3;
CREATE INDEX operations_undelivered ON {{schema}}.operations (handle) WHERE NOT delivered AND state > 2 AND holder IS NULL;
CREATE INDEX operations_flagged ON {{schema}}.operations (handle) WHERE state > 2 AND state <> 4 AND wake_at = 0;
CREATE INDEX operations_settled ON {{schema}}.operations (settled_at, handle) WHERE delivered AND NOT tombstone AND settled_at IS NOT NULL;

-- Each name of an operation, as a digest.
CREATE TABLE {{schema}}.names (digest bytea PRIMARY KEY, handle bigint NOT NULL);
CREATE TABLE {{schema}}.requests (handle bigint PRIMARY KEY, head bytea NOT NULL, body bytea);
CREATE TABLE {{schema}}.answers (handle bigint PRIMARY KEY, head bytea NOT NULL, body bytea);

-- Operations are recognized by these besides their names: digests of keys, references and objects. Handle 0 is an
-- operation that was reaped.
CREATE TABLE {{schema}}.marks (mark bigint NOT NULL, handle bigint NOT NULL, PRIMARY KEY (mark, handle));

-- Events of providers that were heard, by a digest of the provider, its account and their ID.
CREATE TABLE {{schema}}.heard (digest bytea PRIMARY KEY, at bigint NOT NULL);
CREATE INDEX heard_at ON {{schema}}.heard (at);

CREATE TABLE {{schema}}.flows (
  handle bigint PRIMARY KEY,
  name bytea NOT NULL UNIQUE,             -- digest of scope, parent and id
  scope bytea NOT NULL, parent bytea NOT NULL, id bytea NOT NULL,
  function bytea NOT NULL, version bigint NOT NULL,
  state smallint NOT NULL, holder text, due_at bigint, ended_at bigint,
  tombstone boolean NOT NULL, claim bigint NOT NULL, facts bytea NOT NULL, input bytea
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX flows_due ON {{schema}}.flows (due_at, handle) WHERE state = 2;
CREATE INDEX flows_running ON {{schema}}.flows (handle) WHERE state = 1;
CREATE INDEX flows_aside ON {{schema}}.flows (handle) WHERE state = 5;
CREATE INDEX flows_ended ON {{schema}}.flows (ended_at, handle) WHERE ended_at IS NOT NULL AND NOT tombstone;

CREATE TABLE {{schema}}.flow_steps (
  flow bigint NOT NULL, seq bigint NOT NULL,
  kind smallint NOT NULL, name bytea NOT NULL, position bigint NOT NULL, parallel boolean NOT NULL, at bigint NOT NULL,
  result bytea, sum bigint NOT NULL,
  PRIMARY KEY (flow, seq)
);

-- A receipt is the record of a request or a message that was received under a key. The application's own transactions
-- write receipts.
CREATE TABLE {{schema}}.receipts (
  handle bigint PRIMARY KEY,
  identity bytea NOT NULL,                -- digest of scope and key
  written_in xid8 NOT NULL,               -- the transaction that wrote it last
  scope bytea NOT NULL, key bytea NOT NULL, place bytea NOT NULL,
  state smallint NOT NULL,
  ends_at bigint NOT NULL,                -- when something of it is to be reaped next
  facts bytea NOT NULL, answer bytea, body bytea
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
CREATE UNIQUE INDEX receipts_identity ON {{schema}}.receipts (identity);
CREATE INDEX receipts_ends ON {{schema}}.receipts (ends_at, handle);

-- The highest number that was done of each entity of a source, by a digest of both.
CREATE TABLE {{schema}}.heads (
  identity bytea PRIMARY KEY,
  source bytea NOT NULL, entity bytea NOT NULL, seq bigint NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

WITH made AS MATERIALIZED (SELECT decode(replace(gen_random_uuid()::text, '-', ''), 'hex') AS key)
INSERT INTO {{schema}}.journal (id, key, schema_version, least_writer)
SELECT md5(random()::text || clock_timestamp()::text), key || sha256(key), 5, 3 FROM made;
