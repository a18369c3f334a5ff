import type { EventQueries } from "../sql/event-queries.ts";
import { maxSeq } from "../sql/max-seq.ts";

/** Row keys of a conversation from a sequence number on, in log order (see event-key.ts). */
const keys = `key BETWEEN ?1 * ${maxSeq + 1} + ?2 AND ?1 * ${maxSeq + 1} + ${maxSeq} ORDER BY key LIMIT ?3`;
const listed = "conversation = ? AND listed_index BETWEEN ? AND ? ORDER BY listed_index";
const ofKind = "conversation = ? AND kind = ? AND listed_index BETWEEN ? AND ?";

/** SQLite joins the texts, so that the server reads one value instead of a hundred. */
const joined = (rows: string) =>
  `SELECT group_concat(json) AS items FROM (SELECT json FROM events WHERE ${rows})`;
/** SQLite stores the length before the text, so this statement does not read the texts. */
const summed = (rows: string) =>
  `SELECT sum(length) AS length FROM (SELECT octet_length(json) AS length FROM events WHERE ${rows})`;

export const eventQueries = {
  log: "SELECT number, last_seq, last_listed, last_micros FROM conversations WHERE id = ?",
  read: `SELECT key & ${maxSeq} AS seq, listed_index, json FROM events WHERE ${keys}`,
  readLength: summed(keys),
  readParsed: `SELECT group_concat('[' || seq || ',' || coalesce(listed_index, 0) || ',' || json || ']') AS items
    FROM (SELECT key & ${maxSeq} AS seq, listed_index, json FROM events WHERE ${keys})`,
  byId: "SELECT json FROM events WHERE conversation = ? AND id = ? AND listed_index IS NOT NULL",
  indexOf: "SELECT listed_index FROM events WHERE conversation = ? AND id = ? AND listed_index IS NOT NULL",
  navigations: `SELECT c.number, c.last_listed, n.after, n.target, n.micros FROM conversations c
    LEFT JOIN navigations n ON n.conversation = c.number WHERE c.id = ? ORDER BY n.after`,
  timeOf: "SELECT timestamp FROM events WHERE conversation = ? AND listed_index = ?",
  ascending: `SELECT key & ${maxSeq} AS seq, listed_index, json FROM events WHERE ${listed} LIMIT ?`,
  descending: `SELECT json FROM events WHERE ${listed} DESC LIMIT ?`,
  ascendingPage: joined(`${listed} LIMIT ?`),
  descendingPage: joined(`${listed} DESC LIMIT ?`),
  ascendingLength: summed(`${listed} LIMIT ?`),
  descendingLength: summed(`${listed} DESC LIMIT ?`),
  kindAscending: `SELECT json FROM events WHERE ${ofKind} ORDER BY listed_index LIMIT ? OFFSET ?`,
  kindDescending: `SELECT json FROM events WHERE ${ofKind} ORDER BY listed_index DESC LIMIT ? OFFSET ?`,
  kindCount: `SELECT count(*) AS count FROM events WHERE ${ofKind}`,
} as const satisfies EventQueries;
