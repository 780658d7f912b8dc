-- The toolkit: versions of tools, which one is live, recipes that failed, the journal of
-- changes, health of versions.
CREATE TABLE tool_versions (
    id        INTEGER PRIMARY KEY,
    name      TEXT    NOT NULL,
    version   TEXT    NOT NULL DEFAULT '', -- '' when rejected
    status    TEXT    NOT NULL,            -- accepted, rejected
    reason    TEXT    NOT NULL DEFAULT '',
    commit_id TEXT    NOT NULL DEFAULT '',
    sha256    TEXT    NOT NULL DEFAULT '',
    source    TEXT    NOT NULL DEFAULT '',
    recipe    TEXT    NOT NULL DEFAULT '',
    message   TEXT    NOT NULL DEFAULT '',
    spec      TEXT    NOT NULL DEFAULT '{}',
    report    TEXT    NOT NULL DEFAULT '{}',
    at        INTEGER NOT NULL
);
CREATE UNIQUE INDEX tool_versions_accepted ON tool_versions(name, version) WHERE status = 'accepted';
CREATE INDEX tool_versions_by_name ON tool_versions(name, id);

-- Exactly one row, so exactly one active version, for each tool.
CREATE TABLE tools (
    name       TEXT PRIMARY KEY,
    version    TEXT    NOT NULL,
    state      TEXT    NOT NULL,
    reason     TEXT    NOT NULL DEFAULT '',
    previous   TEXT    NOT NULL DEFAULT '',
    updated_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE tool_failures (
    key         TEXT PRIMARY KEY,
    name        TEXT    NOT NULL,
    step        TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    diagnostics TEXT    NOT NULL,
    at          INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE changes (
    id    INTEGER PRIMARY KEY,
    kind  TEXT    NOT NULL,
    name  TEXT    NOT NULL,
    state TEXT    NOT NULL, -- open, committed, done, undone
    step  TEXT    NOT NULL DEFAULT '',
    owner TEXT    NOT NULL DEFAULT '',
    data  TEXT    NOT NULL DEFAULT '{}',
    note  TEXT    NOT NULL DEFAULT '',
    at    INTEGER NOT NULL
);
CREATE INDEX changes_unfinished ON changes(id) WHERE state IN ('open', 'committed');

CREATE TABLE tool_health (
    name     TEXT NOT NULL,
    version  TEXT NOT NULL,
    calls    INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    crashes  INTEGER NOT NULL DEFAULT 0,
    recent   TEXT NOT NULL DEFAULT '',
    evidence TEXT NOT NULL DEFAULT '[]',
    PRIMARY KEY (name, version)
) WITHOUT ROWID;
