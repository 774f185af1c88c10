-- How far lists were read. The record ends with a checksum of the row.
CREATE TABLE {{schema}}.bookmarks (
  name bytea PRIMARY KEY, version bigint NOT NULL, record bytea NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

UPDATE {{schema}}.journal SET schema_version = 6;
