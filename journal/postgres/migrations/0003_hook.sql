-- Whether outcomes are for a hook of some program.
ALTER TABLE {{schema}}.journal ADD COLUMN hooked boolean NOT NULL DEFAULT false;

UPDATE {{schema}}.journal SET schema_version = 3;
