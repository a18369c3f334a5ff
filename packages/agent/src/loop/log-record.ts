import type { Event, NewEvent } from "@sandpiper/wire";

/** `listed: false` is a control record (ConversationStateUpdateEvent): folded and sent live, never listed, counted or resent. */
export interface NewRecord {
  listed: boolean;
  event: NewEvent;
}

export interface LogRecord {
  seq: number;
  listed: boolean;
  event: Event;
  json: string;
}

/** A record without its text. */
export type ParsedRecord = Omit<LogRecord, "json">;
