/** Most events that one conversation can hold; with it, keys stay exact as JavaScript numbers for 2^29 conversations. */
export const maxSeq = 2 ** 24 - 1;

/** Row key of an event: conversation number and sequence number in one integer, in the order of the log. */
export function eventKey(conversation: number, seq: number): number {
  return conversation * (maxSeq + 1) + seq;
}
