import type { Event, NewEvent } from "@sandpiper/wire";

/** `listed: false`: a ConversationStateUpdateEvent, folded and sent live, but never resent. */
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

/** A record without its JSON. */
export type ParsedRecord = Omit<LogRecord, "json">;
