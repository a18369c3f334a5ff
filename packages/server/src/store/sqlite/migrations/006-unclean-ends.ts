/**
 * Adds `conversations.unclean_ends`: how often in a row the server ended without a clean shutdown
 * while the conversation was running. A clean shutdown takes back the one that the next start
 * counts, so the value is -1 between them.
 */
export const uncleanEnds = `
ALTER TABLE conversations ADD COLUMN unclean_ends INTEGER NOT NULL DEFAULT 0;
`;
