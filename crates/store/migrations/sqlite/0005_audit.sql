-- The audit: who did what, and who was refused what. Never edit a migration that shipped: add the next one.

CREATE TABLE audit (
    profile    TEXT    NOT NULL REFERENCES profile (id),
    number     INTEGER NOT NULL CHECK (number >= 1),
    at_ms      INTEGER NOT NULL,
    actor      TEXT    NOT NULL,
    key        TEXT,
    tenant     TEXT,
    action     TEXT    NOT NULL,
    target     TEXT,
    generation INTEGER,
    gate       TEXT,
    outcome    TEXT    NOT NULL CHECK (outcome IN ('done', 'refused')),
    code       TEXT,
    count      INTEGER NOT NULL CHECK (count >= 1),
    detail     TEXT    NOT NULL,
    seal       BLOB    NOT NULL CHECK (length(seal) = 32),
    PRIMARY KEY (profile, number)
) STRICT;

CREATE INDEX audit_by_age ON audit (profile, at_ms, number);

CREATE TRIGGER audit_has_no_gaps
BEFORE INSERT ON audit
WHEN NEW.number IS NOT (SELECT coalesce(max(number), 0) + 1 FROM audit WHERE profile = NEW.profile)
BEGIN
    SELECT raise(ABORT, 'the numbers of the audit rise by one');
END;

CREATE TRIGGER audit_is_immutable
BEFORE UPDATE ON audit
BEGIN
    SELECT raise(ABORT, 'the audit is immutable');
END;

-- The newest stays, so that no number is given twice; and what is left has no gap.
CREATE TRIGGER audit_is_kept
BEFORE DELETE ON audit
WHEN NOT EXISTS (SELECT 1 FROM retention WHERE profile = OLD.profile)
    OR OLD.number = (SELECT max(number) FROM audit WHERE profile = OLD.profile)
    OR OLD.number > (SELECT min(number) FROM audit WHERE profile = OLD.profile)
BEGIN
    SELECT raise(ABORT, 'the audit is deleted by retention only, from its oldest record on');
END;

PRAGMA user_version = 5;
