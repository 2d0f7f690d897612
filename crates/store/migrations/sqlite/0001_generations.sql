-- Profiles and their generations. Never edit a migration that shipped: add the next one.
-- `application_id` says `GNLK`; `user_version` is the number of this file.

CREATE TABLE profile (
    id    TEXT    NOT NULL PRIMARY KEY,
    epoch INTEGER NOT NULL CHECK (epoch >= 1),
    head  INTEGER,
    -- The head cannot be deleted, and a head without its generation cannot be committed.
    FOREIGN KEY (id, head) REFERENCES generation (profile, number) DEFERRABLE INITIALLY DEFERRED
) STRICT;

-- The big columns come last, so that a listing never reads their pages.
CREATE TABLE generation (
    profile      TEXT    NOT NULL REFERENCES profile (id),
    number       INTEGER NOT NULL CHECK (number >= 1),
    parent       INTEGER,
    digest       BLOB    NOT NULL CHECK (length(digest) = 32),
    cause        TEXT    NOT NULL,
    actor        TEXT    NOT NULL,
    reason       TEXT,
    at_ms        INTEGER NOT NULL,
    content      BLOB    NOT NULL CHECK (length(content) = 32),
    seal         BLOB    NOT NULL CHECK (length(seal) = 32),
    fingerprints TEXT    NOT NULL,
    overlay      TEXT    NOT NULL,
    config       TEXT    NOT NULL,
    PRIMARY KEY (profile, number),
    CHECK (parent IS nullif(number - 1, 0))
) STRICT;

-- A row here, within one transaction only, lets retention delete generations of its profile.
CREATE TABLE retention (
    profile TEXT NOT NULL PRIMARY KEY REFERENCES profile (id)
) STRICT;

CREATE TRIGGER profile_only_moves_forward
BEFORE UPDATE ON profile
WHEN NEW.id IS NOT OLD.id
    OR NEW.epoch NOT IN (OLD.epoch, OLD.epoch + 1)
    OR (NEW.head IS NOT OLD.head AND NEW.head IS NOT coalesce(OLD.head, 0) + 1)
BEGIN
    SELECT raise(ABORT, 'an epoch and a head rise by one');
END;

CREATE TRIGGER profile_is_kept
BEFORE DELETE ON profile
BEGIN
    SELECT raise(ABORT, 'profiles are never deleted');
END;

CREATE TRIGGER generation_follows_the_head
BEFORE INSERT ON generation
WHEN NEW.number IS NOT (SELECT head FROM profile WHERE id = NEW.profile)
BEGIN
    SELECT raise(ABORT, 'a generation is committed as the head');
END;

CREATE TRIGGER generation_is_immutable
BEFORE UPDATE ON generation
BEGIN
    SELECT raise(ABORT, 'generations are immutable');
END;

CREATE TRIGGER generation_is_kept
BEFORE DELETE ON generation
WHEN NOT EXISTS (SELECT 1 FROM retention WHERE profile = OLD.profile)
BEGIN
    SELECT raise(ABORT, 'generations are deleted by retention only');
END;

PRAGMA application_id = 1196313675;
PRAGMA user_version = 1;
