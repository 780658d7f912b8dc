-- Versions of the system text. The built-in text is version 1 and is not stored unless
-- another version refers to it.
CREATE TABLE prompts (
    version    INTEGER PRIMARY KEY,
    content    TEXT    NOT NULL,
    parent     INTEGER,
    reason     TEXT    NOT NULL DEFAULT '',
    active     INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX prompts_one_active ON prompts(active) WHERE active = 1;
