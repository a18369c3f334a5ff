/** Notes which nodes have ended although their lease had not: their processes were killed. */
export const endedNodes = `
ALTER TABLE nodes ADD COLUMN IF NOT EXISTS ended boolean NOT NULL DEFAULT false;
`;
