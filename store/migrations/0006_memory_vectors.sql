-- The vectors that an embeddings server gave for memories: of which model, and of which
-- text (the row's digest). float32, little-endian, of length one.
CREATE TABLE memory_vectors (
    memory_id INTEGER PRIMARY KEY,
    model     TEXT NOT NULL,
    hash      TEXT NOT NULL,
    vector    BLOB NOT NULL
);
CREATE TRIGGER memory_vectors_gone AFTER DELETE ON memories BEGIN
    DELETE FROM memory_vectors WHERE memory_id = old.id;
END;
