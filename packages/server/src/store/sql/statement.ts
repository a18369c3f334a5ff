/** A statement with `?` for each parameter, or `?1`, `?2` … for numbered ones. */
export interface Statement {
  sql: string;
  parameters: readonly SqlValue[];
}

export type SqlValue = null | number | string | Uint8Array;
