-- {{schema}} stands for the quoted name of the journal's schema. Times of events are milliseconds since 1970 by the
-- askers' clock; times of leases are by the server's own, and are compared with nothing else.

-- Names and what providers say are bytes: they may hold NUL, and what is not UTF-8.
CREATE SEQUENCE {{schema}}.handles AS bigint MINVALUE 1 START WITH 1099511627777;

CREATE TABLE {{schema}}.journal (
  one smallint PRIMARY KEY DEFAULT 1 CHECK (one = 1),
  id text NOT NULL,                       -- of the journal, random
  deployment text,                        -- whose it is: the first Open says so
  epoch bigint NOT NULL DEFAULT 1,        -- raised by Adopt and Confirm; handles carry it from bit 40 on
  schema_version int NOT NULL,
  least_writer int NOT NULL,              -- the least release of this store's that may write to it, by its number
  last_at bigint NOT NULL DEFAULT 0,      -- the latest time, as far as no lane has it
  least_margin bigint NOT NULL DEFAULT 0, -- in nanoseconds; 0: none
  jumped_at bigint,                       -- where the askers' clock has jumped to
  ahead_at bigint,                        -- the latest time of a clock that was set back
  system_identifier text, database_oid text, table_oid text, timeline text, -- where it lay when it was seen last
  synchronous boolean NOT NULL DEFAULT false,                         -- commits waited for a standby then
  restored text,                          -- why it counts as restored; NULL: it doesn't
  promoted text,                          -- a timeline that is new, until all who are alive have found all they were told of
  witnessed bigint NOT NULL DEFAULT 0,    -- a number that the witness is told, if there is one
  history text NOT NULL DEFAULT ''        -- who adopted, confirmed or reset it, a line each
);

-- A session is somebody who holds operations; its process, which is a session too, writes. One is alive as long as its
-- row is there and was not buried.
CREATE TABLE {{schema}}.sessions (
  id text PRIMARY KEY,
  process text NOT NULL,
  epoch bigint NOT NULL,
  beats bigint NOT NULL DEFAULT 0,
  expires_at timestamptz NOT NULL,
  buried_at timestamptz,
  timeline text,                          -- a process's: the one that it has found all on that it was told of
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  host text NOT NULL DEFAULT '', pid int NOT NULL DEFAULT 0
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX sessions_process ON {{schema}}.sessions (process);

-- A lane is a connection on which a process commits. Whoever has to know that it commits nothing more raises its tenure.
CREATE TABLE {{schema}}.lanes (
  process text NOT NULL, lane int NOT NULL,
  batch bigint NOT NULL DEFAULT 0,
  tenure bigint NOT NULL DEFAULT 0,
  last_at bigint NOT NULL DEFAULT 0,
  least_margin bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (process, lane)
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE {{schema}}.operations (
  handle bigint PRIMARY KEY DEFAULT pg_catalog.nextval('{{schema}}.handles'::pg_catalog.regclass),
  identity bytea,                         -- digest of scope, parent and id; NULL: the id is a key that was made here
  alias bytea,                            -- likewise, of the second name
  scope bytea NOT NULL, parent bytea NOT NULL, id bytea NOT NULL,
  naming smallint NOT NULL, provider bytea NOT NULL,
  state smallint NOT NULL, holder text, wake_at bigint, settled_at bigint,
  delivered boolean NOT NULL, tombstone boolean NOT NULL,
  revision int NOT NULL DEFAULT 0, facts bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE UNIQUE INDEX operations_identity ON {{schema}}.operations (identity) WHERE identity IS NOT NULL;
CREATE UNIQUE INDEX operations_alias ON {{schema}}.operations (alias) WHERE alias IS NOT NULL;
-- By portions: a random key anywhere in an index of all costs a page of it in the log. Those in flight are held.
CREATE INDEX operations_generated ON {{schema}}.operations ((handle >> 16), substr(id, 1, 100)) WHERE identity IS NULL AND state <> 2;
CREATE INDEX operations_holder ON {{schema}}.operations (holder, handle) WHERE holder IS NOT NULL;
-- What is not over, by age: of a long history, little.
CREATE INDEX operations_open ON {{schema}}.operations (handle) WHERE state <> 3 OR NOT delivered;
CREATE INDEX operations_wake ON {{schema}}.operations (wake_at, handle) WHERE state = 1;
CREATE INDEX operations_pending ON {{schema}}.operations (handle) WHERE state = 1;
CREATE INDEX operations_looks ON {{schema}}.operations (wake_at, handle) WHERE state = 4;
CREATE INDEX operations_dead ON {{schema}}.operations (handle) WHERE wake_at = 0;
CREATE INDEX operations_nobodys ON {{schema}}.operations (handle) WHERE state > 2 AND NOT delivered AND holder IS NULL;
CREATE INDEX operations_settled ON {{schema}}.operations (settled_at, handle) WHERE (state = 3 OR state = 5) AND delivered AND NOT tombstone;

CREATE TABLE {{schema}}.requests (handle bigint PRIMARY KEY, head bytea, body bytea);
CREATE TABLE {{schema}}.answers (handle bigint PRIMARY KEY, head bytea NOT NULL, body bytea);

CREATE TABLE {{schema}}.leases (name text PRIMARY KEY, session text NOT NULL, expires_at timestamptz NOT NULL);

-- What operations are recognised by besides their names: hashes of keys, references and objects. The row of a hash with
-- handle 0 is what those wait for each other at who go by the same object.
CREATE TABLE {{schema}}.marks (
  hash bigint NOT NULL, handle bigint NOT NULL,
  PRIMARY KEY (hash, handle)
);

-- Events of providers that were heard, by a digest of the provider, its account and their ID.
CREATE TABLE {{schema}}.heard (digest bytea PRIMARY KEY, at bigint NOT NULL);
CREATE INDEX heard_at ON {{schema}}.heard (at);

CREATE TABLE {{schema}}.flows (
  handle bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  identity bytea NOT NULL UNIQUE,
  scope bytea NOT NULL, parent bytea NOT NULL, id bytea NOT NULL,
  function bytea NOT NULL, version int NOT NULL,
  state smallint NOT NULL, holder text, claim bigint NOT NULL, due_at bigint, ended_at bigint,
  tombstone boolean NOT NULL, facts bytea NOT NULL, input bytea
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX flows_holder ON {{schema}}.flows (holder, handle) WHERE holder IS NOT NULL;
CREATE INDEX flows_open ON {{schema}}.flows (handle) WHERE state = 1 OR state = 2 OR state = 5;
CREATE INDEX flows_due ON {{schema}}.flows (due_at, handle) WHERE state = 2;
CREATE INDEX flows_ended ON {{schema}}.flows (ended_at, handle) WHERE ended_at IS NOT NULL AND NOT tombstone;

CREATE TABLE {{schema}}.flow_steps (
  flow bigint NOT NULL, seq int NOT NULL,
  kind smallint NOT NULL, name bytea NOT NULL, position int NOT NULL, parallel boolean NOT NULL, at bigint NOT NULL,
  result bytea, sum bigint NOT NULL,
  PRIMARY KEY (flow, seq)
);

INSERT INTO {{schema}}.journal (id, schema_version, least_writer) VALUES (md5(random()::text || clock_timestamp()::text), 1, 1);
