-- Sessions, their transitions and their turns. Never edit a migration that shipped: add the next one.

-- Every server of every generation there ever was, pruned ones included: a platform's list stays an allowlist although its
-- servers were removed.
CREATE TABLE server_name (
    profile TEXT NOT NULL REFERENCES profile (id),
    name    TEXT NOT NULL,
    PRIMARY KEY (profile, name)
) STRICT;

INSERT INTO server_name (profile, name)
SELECT DISTINCT generation.profile, server.key
FROM generation, json_each(generation.config, '$.mcp_servers') AS server
WHERE json_valid(generation.config);

CREATE TRIGGER server_name_is_kept
BEFORE DELETE ON server_name
BEGIN
    SELECT raise(ABORT, 'the name of a server is kept');
END;

CREATE TABLE session (
    profile    TEXT    NOT NULL REFERENCES profile (id),
    id         TEXT    NOT NULL,
    owner      TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    source     TEXT    NOT NULL,
    cwd        TEXT    NOT NULL,
    title      TEXT,
    pick       TEXT,
    created_ms INTEGER NOT NULL,
    policy_seq INTEGER NOT NULL CHECK (policy_seq >= 1),
    generation INTEGER NOT NULL,
    selection  TEXT    NOT NULL,
    token      INTEGER NOT NULL CHECK (token >= 1),
    token_ms   INTEGER NOT NULL,
    closed_ms  INTEGER,
    seal       BLOB    NOT NULL CHECK (length(seal) = 32),
    PRIMARY KEY (profile, id),
    UNIQUE (profile, owner, request_id)
) STRICT;

CREATE INDEX session_by_age ON session (profile, created_ms, id);
CREATE INDEX session_by_generation ON session (profile, generation);

CREATE TABLE transition (
    profile    TEXT    NOT NULL,
    session    TEXT    NOT NULL,
    policy_seq INTEGER NOT NULL CHECK (policy_seq >= 1),
    generation INTEGER NOT NULL,
    cause      TEXT    NOT NULL,
    actor      TEXT    NOT NULL,
    at_ms      INTEGER NOT NULL,
    selection  TEXT    NOT NULL,
    seal       BLOB    NOT NULL CHECK (length(seal) = 32),
    PRIMARY KEY (profile, session, policy_seq),
    FOREIGN KEY (profile, session) REFERENCES session (profile, id)
) STRICT;

-- The big columns come last.
CREATE TABLE turn (
    profile      TEXT    NOT NULL,
    id           TEXT    NOT NULL,
    session      TEXT    NOT NULL,
    sequence     INTEGER NOT NULL CHECK (sequence >= 1),
    submission   TEXT    NOT NULL,
    policy_seq   INTEGER NOT NULL,
    generation   INTEGER NOT NULL,
    actor        TEXT    NOT NULL,
    submitted_ms INTEGER NOT NULL,
    status       TEXT    NOT NULL CHECK (status IN ('queued', 'running', 'unknown', 'done')),
    outcome      TEXT,
    execution    TEXT,
    secret       BLOB,
    started_ms   INTEGER,
    ended_ms     INTEGER,
    seal         BLOB    NOT NULL CHECK (length(seal) = 32),
    error        TEXT,
    payload      TEXT    NOT NULL,
    result       TEXT,
    PRIMARY KEY (profile, id),
    UNIQUE (profile, session, sequence),
    UNIQUE (profile, session, submission),
    CHECK ((status = 'done') = (outcome IS NOT NULL)),
    FOREIGN KEY (profile, session) REFERENCES session (profile, id)
) STRICT;

CREATE INDEX turn_open ON turn (profile, session, sequence) WHERE status <> 'done';

-- The fence, once more and where nobody can forget it: a policy moves only while no turn is open, and by one.
CREATE TRIGGER session_moves_while_idle
BEFORE UPDATE OF policy_seq, generation, selection ON session
WHEN NEW.policy_seq IS NOT OLD.policy_seq + 1
    OR OLD.closed_ms IS NOT NULL
    OR EXISTS (SELECT 1 FROM turn WHERE profile = OLD.profile AND session = OLD.id AND status <> 'done')
    OR NOT EXISTS (SELECT 1 FROM transition WHERE profile = OLD.profile AND session = OLD.id
                   AND policy_seq = NEW.policy_seq AND generation = NEW.generation AND selection = NEW.selection)
BEGIN
    SELECT raise(ABORT, 'a policy moves by one transition, while no turn is open');
END;

CREATE TRIGGER generation_of_an_open_session_is_kept
BEFORE DELETE ON generation
WHEN EXISTS (SELECT 1 FROM session WHERE profile = OLD.profile AND generation = OLD.number AND closed_ms IS NULL)
BEGIN
    SELECT raise(ABORT, 'what an open session pins is kept');
END;

CREATE TRIGGER session_keeps_its_request
BEFORE UPDATE OF profile, id, owner, request_id, source, cwd, title, pick, created_ms ON session
BEGIN
    SELECT raise(ABORT, 'what a session was created with is immutable');
END;

CREATE TRIGGER transition_is_immutable
BEFORE UPDATE ON transition
BEGIN
    SELECT raise(ABORT, 'transitions are immutable');
END;

CREATE TRIGGER transition_is_kept
BEFORE DELETE ON transition
WHEN NOT EXISTS (SELECT 1 FROM retention WHERE profile = OLD.profile)
BEGIN
    SELECT raise(ABORT, 'transitions are deleted by retention only');
END;

CREATE TRIGGER turn_runs_under_the_policy_of_its_admission
BEFORE INSERT ON turn
WHEN NEW.status IS NOT 'queued'
    OR NOT EXISTS (SELECT 1 FROM session WHERE profile = NEW.profile AND id = NEW.session AND closed_ms IS NULL
                   AND policy_seq = NEW.policy_seq AND generation = NEW.generation)
BEGIN
    SELECT raise(ABORT, 'a turn is admitted under the policy of its session');
END;

CREATE TRIGGER turn_keeps_what_was_admitted
BEFORE UPDATE OF profile, id, session, sequence, submission, policy_seq, generation, actor, submitted_ms, payload ON turn
BEGIN
    SELECT raise(ABORT, 'what was admitted is immutable');
END;

CREATE TRIGGER turn_only_moves_forward
BEFORE UPDATE OF status, outcome ON turn
WHEN (OLD.status || '>' || NEW.status) NOT IN
    ('queued>running', 'queued>done', 'running>done', 'running>unknown', 'unknown>done')
BEGIN
    SELECT raise(ABORT, 'a turn only moves forward, and runs once');
END;

CREATE TRIGGER turn_runs_alone
BEFORE UPDATE OF status ON turn
WHEN NEW.status = 'running' AND EXISTS (
    SELECT 1 FROM turn WHERE profile = OLD.profile AND session = OLD.session AND status IN ('running', 'unknown'))
BEGIN
    SELECT raise(ABORT, 'one turn of a session runs at a time');
END;

CREATE TRIGGER turn_is_kept
BEFORE DELETE ON turn
WHEN OLD.status <> 'done' OR NOT EXISTS (SELECT 1 FROM retention WHERE profile = OLD.profile)
BEGIN
    SELECT raise(ABORT, 'turns are deleted by retention only');
END;

PRAGMA user_version = 2;
