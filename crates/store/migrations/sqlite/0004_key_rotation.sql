-- Keys that are replaced by another one end earlier than they were made to, and when each was used last.

-- What a key was made with stays as it is; that another one replaces it is told beside that, once.
ALTER TABLE api_key ADD COLUMN replaced_by TEXT;
ALTER TABLE api_key ADD COLUMN ends_ms INTEGER;

CREATE TRIGGER api_key_is_replaced_once
BEFORE UPDATE OF replaced_by, ends_ms ON api_key
WHEN OLD.replaced_by IS NOT NULL
BEGIN
    SELECT raise(ABORT, 'an api_key is replaced once and for good');
END;

-- A hint for people who look for keys that nobody uses. It has no seal, and nothing is decided by it.
CREATE TABLE api_key_use (
    profile TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    used_ms INTEGER NOT NULL,
    PRIMARY KEY (profile, id),
    FOREIGN KEY (profile, id) REFERENCES api_key (profile, id)
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 4;
