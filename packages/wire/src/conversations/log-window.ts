import { type Static, Type } from "typebox";
import { Event } from "../events/event.ts";

/** A listed event with its places in the log. */
export const LogItem = Type.Object({
  number: Type.Integer({ description: "place among the events of the log, from 1 without gaps" }),
  seq: Type.Integer({ description: "sequence number, by which sockets resume" }),
  cut: Type.Boolean({ description: "texts of the event are cut" }),
  event: Event,
});

/** Answer of `GET /api/v1/app-conversations/{id}/log`, an addition to the contract. */
export const LogWindow = Type.Object({
  items: Type.Array(LogItem),
  events: Type.Integer({ description: "number of all events of the log" }),
  last_seq: Type.Integer({ description: "highest sequence number of the log" }),
});

export type LogItem = Static<typeof LogItem>;
export type LogWindow = Static<typeof LogWindow>;
