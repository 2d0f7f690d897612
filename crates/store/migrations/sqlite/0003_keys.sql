-- API keys: what is kept of them, and whose they are. Never edit a migration that shipped: add the next one.

CREATE TABLE api_key (
    profile    TEXT    NOT NULL REFERENCES profile (id),
    id         TEXT    NOT NULL,
    hash       BLOB    NOT NULL CHECK (length(hash) = 32),
    principal  TEXT    NOT NULL,
    tenant     TEXT,
    groups     TEXT    NOT NULL,
    actor      TEXT    NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    revoked_ms INTEGER,
    seal       BLOB    NOT NULL CHECK (length(seal) = 32),
    PRIMARY KEY (profile, id),
    UNIQUE (profile, hash)
) STRICT;

CREATE TRIGGER api_key_keeps_what_it_was_made_with
BEFORE UPDATE OF profile, id, hash, principal, tenant, groups, actor, created_ms, expires_ms ON api_key
BEGIN
    SELECT raise(ABORT, 'what an api_key was made with is immutable');
END;

CREATE TRIGGER api_key_is_revoked_for_good
BEFORE UPDATE OF revoked_ms ON api_key
WHEN OLD.revoked_ms IS NOT NULL
BEGIN
    SELECT raise(ABORT, 'an api_key is revoked once and for good');
END;

-- What was revoked must not come back by being forgotten and made again.
CREATE TRIGGER api_key_is_kept
BEFORE DELETE ON api_key
BEGIN
    SELECT raise(ABORT, 'an api_key is kept, also once it is revoked');
END;

PRAGMA user_version = 3;
