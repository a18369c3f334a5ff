import { maxSeq } from "../sql/max-seq.ts";

/**
 * Row key of an event: conversation and sequence number in one integer, in log order. Keys stay
 * exact JavaScript numbers for 2^29 conversations.
 */
export function eventKey(conversation: number, seq: number): number {
  return conversation * (maxSeq + 1) + seq;
}
