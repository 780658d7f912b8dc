-- The tokens that a summary cost. NULL: not known, for those from before.
ALTER TABLE summaries ADD COLUMN tokens INTEGER;
