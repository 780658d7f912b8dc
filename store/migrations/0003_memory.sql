-- Long-term memory: rows, their history, links and index, tombstones, how far extraction
-- has read. Times are milliseconds since 1970 UTC, 0 for never.
CREATE TABLE memories (
    id            INTEGER PRIMARY KEY AUTOINCREMENT, -- an id is never used twice
    content       TEXT    NOT NULL,
    category      TEXT    DEFAULT 'general',
    priority      INTEGER DEFAULT 2,
    importance    INTEGER DEFAULT 3,
    tags          TEXT    DEFAULT '',  -- separated by line feeds
    scope         TEXT    DEFAULT 'global',
    project       TEXT    DEFAULT '',
    pinned        INTEGER DEFAULT 0,
    state         TEXT    DEFAULT 'active',
    source        TEXT    DEFAULT 'user',
    session_id    TEXT    DEFAULT '',
    message_seq   INTEGER DEFAULT 0,
    context       TEXT    DEFAULT '',
    created_at    INTEGER DEFAULT 0,
    updated_at    INTEGER DEFAULT 0,
    aged_at       INTEGER DEFAULT 0,
    expires_at    INTEGER DEFAULT 0,
    last_used_at  INTEGER DEFAULT 0,
    use_count     INTEGER DEFAULT 0,
    last_outcome  TEXT    DEFAULT '',
    valid_from    INTEGER DEFAULT 0,
    valid_to      INTEGER DEFAULT 0,
    superseded_by INTEGER DEFAULT 0,
    hash          TEXT    DEFAULT '',
    keywords      TEXT    DEFAULT ''   -- separated by line feeds
);
CREATE INDEX memories_by_rank ON memories(state, priority, importance, last_used_at DESC, id);
CREATE INDEX memories_by_hash ON memories(hash);
CREATE INDEX memories_by_expiry ON memories(expires_at) WHERE expires_at > 0;
CREATE INDEX memories_by_creation ON memories(state, created_at);
CREATE INDEX memories_by_age ON memories(state, priority, aged_at);
CREATE INDEX memories_pinned ON memories(id) WHERE pinned = 1;

CREATE VIRTUAL TABLE memory_index USING fts5(words, grams, context, tokenize="unicode61 remove_diacritics 2");
-- What is deleted leaves the index at once, not at some later merge.
INSERT INTO memory_index(memory_index, rank) VALUES('secure-delete', 1);

-- In how many rows each word of the column "words" occurs.
CREATE TABLE memory_words (
    word TEXT PRIMARY KEY,
    rows INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE memory_totals (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    rows  INTEGER NOT NULL,
    words INTEGER NOT NULL
);
INSERT INTO memory_totals VALUES(1, 0, 0);

CREATE TABLE memory_events (
    id        INTEGER PRIMARY KEY,
    memory_id INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    action    TEXT    NOT NULL,
    detail    TEXT    NOT NULL DEFAULT '',
    other_id  INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX memory_events_by_memory ON memory_events(memory_id, id);

-- kind: linked (same subject, in doubt), derived (from_id was made from to_id).
CREATE TABLE memory_links (
    from_id INTEGER NOT NULL,
    to_id   INTEGER NOT NULL,
    kind    TEXT    NOT NULL,
    PRIMARY KEY (from_id, to_id, kind)
) WITHOUT ROWID;
CREATE INDEX memory_links_back ON memory_links(to_id);

CREATE TABLE memory_tombstones (
    hash TEXT PRIMARY KEY,
    at   INTEGER NOT NULL
) WITHOUT ROWID;

-- The last message of each session that extraction has read.
CREATE TABLE memory_progress (
    session_id TEXT PRIMARY KEY,
    seq        INTEGER NOT NULL,
    at         INTEGER NOT NULL
) WITHOUT ROWID;
