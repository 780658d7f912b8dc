-- Sessions, their append-only message log, calls, kept outputs, settings of a project.
-- Times are milliseconds since 1970 UTC unless a name says otherwise.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE sessions (
    id                TEXT PRIMARY KEY,
    title             TEXT    NOT NULL DEFAULT '',
    title_by          TEXT    NOT NULL DEFAULT '',
    project           TEXT    NOT NULL DEFAULT '',
    model             TEXT    NOT NULL DEFAULT '',
    system            TEXT    NOT NULL DEFAULT '',
    tools             BLOB,
    prompt_version    INTEGER NOT NULL DEFAULT 0,
    parent            TEXT    NOT NULL DEFAULT '',
    kind              TEXT    NOT NULL DEFAULT '',
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    turns             INTEGER NOT NULL DEFAULT 0,
    last_stop         TEXT    NOT NULL DEFAULT '',
    requests          INTEGER NOT NULL DEFAULT 0,
    prompt_tokens     INTEGER NOT NULL DEFAULT 0,
    cached_tokens     INTEGER NOT NULL DEFAULT 0,
    completion_tokens INTEGER NOT NULL DEFAULT 0,
    unreported        INTEGER NOT NULL DEFAULT 0,
    todo              TEXT    NOT NULL DEFAULT '[]'
);
CREATE INDEX sessions_by_project ON sessions(project, updated_at);
CREATE INDEX sessions_by_time ON sessions(updated_at);

CREATE TABLE messages (
    id         INTEGER PRIMARY KEY,
    session_id TEXT    NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
    seq        INTEGER NOT NULL,
    turn       INTEGER NOT NULL DEFAULT 0,
    at         INTEGER NOT NULL,
    role       TEXT    NOT NULL,
    note       TEXT    NOT NULL DEFAULT '',
    text       TEXT,             -- what people search, no JSON
    raw        BLOB    NOT NULL, -- the bytes that were sent
    UNIQUE (session_id, seq)
);

-- Filled at search time from the rows after meta 'messages_indexed'.
CREATE VIRTUAL TABLE message_index USING fts5(grams, content='', contentless_delete=1, tokenize="unicode61 remove_diacritics 2");

CREATE TABLE calls (
    id         INTEGER PRIMARY KEY,
    session_id TEXT    NOT NULL,
    turn       INTEGER NOT NULL,
    call_id    TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    version    TEXT    NOT NULL DEFAULT '',
    status     TEXT    NOT NULL,
    ms         INTEGER NOT NULL DEFAULT 0,
    at         INTEGER NOT NULL,
    error      TEXT    NOT NULL DEFAULT ''
);
CREATE INDEX calls_by_name ON calls(name, id);
CREATE INDEX calls_by_session ON calls(session_id, id);

CREATE TABLE outputs (
    id         TEXT PRIMARY KEY,
    session_id TEXT    NOT NULL,
    call_id    TEXT    NOT NULL,
    tool       TEXT    NOT NULL,
    path       TEXT    NOT NULL, -- file below the home directory
    bytes      INTEGER NOT NULL, -- of the stored text
    dropped    INTEGER NOT NULL DEFAULT 0, -- bytes beyond the store's limit
    at         INTEGER NOT NULL
);
CREATE INDEX outputs_by_session ON outputs(session_id);

-- Digests of the files that a session has read or written.
CREATE TABLE known_files (
    session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
    path       TEXT NOT NULL,
    digest     TEXT NOT NULL,
    PRIMARY KEY (session_id, path)
) WITHOUT ROWID;

-- Permissions given "always in this project".
CREATE TABLE grants (
    project TEXT    NOT NULL,
    rule    TEXT    NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (project, rule)
) WITHOUT ROWID;

-- What requests cost, by day and cause.
CREATE TABLE costs (
    day               TEXT    NOT NULL, -- local date
    cause             TEXT    NOT NULL,
    model             TEXT    NOT NULL,
    session_id        TEXT    NOT NULL DEFAULT '',
    requests          INTEGER NOT NULL DEFAULT 0,
    prompt_tokens     INTEGER NOT NULL DEFAULT 0,
    cached_tokens     INTEGER NOT NULL DEFAULT 0,
    completion_tokens INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (day, cause, model, session_id)
) WITHOUT ROWID;
