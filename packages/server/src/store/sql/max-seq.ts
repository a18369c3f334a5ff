/** Maximum events per conversation. */
export const maxSeq = 2 ** 24 - 1;
