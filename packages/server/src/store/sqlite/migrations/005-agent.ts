/**
 * Adds `model_calls` with a row for each model call of a conversation: `seq` is the number of the
 * last record when it was stored, `json` the call.
 */
export const agent = `
CREATE TABLE model_calls (
  number INTEGER PRIMARY KEY,
  conversation INTEGER NOT NULL REFERENCES conversations (number) ON DELETE CASCADE,
  seq INTEGER NOT NULL,
  json TEXT NOT NULL
) STRICT;
CREATE INDEX model_calls_of ON model_calls (conversation, number);
`;
