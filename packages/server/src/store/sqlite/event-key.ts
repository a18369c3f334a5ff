/** Maximum events per conversation; keys stay exact JavaScript numbers for 2^29 conversations. */
export const maxSeq = 2 ** 24 - 1;

/** Row key of an event: conversation and sequence number in one integer, in log order. */
export function eventKey(conversation: number, seq: number): number {
  return conversation * (maxSeq + 1) + seq;
}
