-- The keys that have sealed payloads, with a space between. The first one raises least_writer.
ALTER TABLE {{schema}}.journal ADD COLUMN sealed text NOT NULL DEFAULT '';

UPDATE {{schema}}.journal SET schema_version = 7;
