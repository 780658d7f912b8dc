-- Long conversations: summaries by a model, what ran in the background and how it ended,
-- the decided plan of a session, kept outputs that several sessions share.
CREATE TABLE summaries (
    id         INTEGER PRIMARY KEY,
    session_id TEXT    NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
    from_turn  INTEGER NOT NULL,
    upto_turn  INTEGER NOT NULL,
    semantic   TEXT    NOT NULL,
    tools      TEXT    NOT NULL DEFAULT '',
    model      TEXT    NOT NULL DEFAULT '',
    at         INTEGER NOT NULL,
    UNIQUE (session_id, from_turn)
);

CREATE TABLE background (
    job        TEXT    NOT NULL, -- summary, title, extraction
    session_id TEXT    NOT NULL DEFAULT '',
    state      TEXT    NOT NULL, -- done, failed, skipped
    reason     TEXT    NOT NULL DEFAULT '',
    upto       INTEGER NOT NULL DEFAULT 0, -- the last turn that was looked at
    failures   INTEGER NOT NULL DEFAULT 0, -- in a row
    at         INTEGER NOT NULL,
    PRIMARY KEY (job, session_id)
) WITHOUT ROWID;

ALTER TABLE sessions ADD COLUMN plan TEXT NOT NULL DEFAULT '';

-- Answers that came without figures, and what they are guessed at.
ALTER TABLE costs ADD COLUMN unreported INTEGER NOT NULL DEFAULT 0;
ALTER TABLE costs ADD COLUMN guessed_tokens INTEGER NOT NULL DEFAULT 0;
CREATE INDEX costs_by_session ON costs(session_id);
CREATE INDEX sessions_by_parent ON sessions(parent);

CREATE TABLE outputs_new (
    id         TEXT    NOT NULL,
    session_id TEXT    NOT NULL,
    call_id    TEXT    NOT NULL,
    tool       TEXT    NOT NULL,
    path       TEXT    NOT NULL, -- file below the home directory
    bytes      INTEGER NOT NULL, -- of the stored text
    dropped    INTEGER NOT NULL DEFAULT 0, -- bytes beyond the store's limit
    at         INTEGER NOT NULL,
    PRIMARY KEY (session_id, id)
);
INSERT INTO outputs_new SELECT id, session_id, call_id, tool, path, bytes, dropped, at FROM outputs;
DROP TABLE outputs;
ALTER TABLE outputs_new RENAME TO outputs;
CREATE INDEX outputs_by_session ON outputs(session_id);
