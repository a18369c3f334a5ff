import type { EventQueries } from "../sql/event-queries.ts";

const from = "conversation = $1 AND seq >= $2::bigint ORDER BY seq LIMIT $3";
const listed = "conversation = $1 AND listed_index BETWEEN $2::bigint AND $3::bigint ORDER BY listed_index";
const ofKind =
  "conversation = $1 AND kind = $2 AND listed_index BETWEEN $3::bigint AND $4::bigint ORDER BY listed_index";

const bytes = "octet_length(json)";
const joined = (rows: string) =>
  `SELECT string_agg(json, ',') AS items FROM (SELECT json FROM events WHERE ${rows}) found`;
/** PostgreSQL stores lengths beside the texts, so this statement does not read the texts. */
const summed = (rows: string) =>
  `SELECT sum(length) AS length FROM (SELECT ${bytes} AS length FROM events WHERE ${rows}) found`;

/** Statements of the log on PostgreSQL. */
export const eventQueries = {
  log: "SELECT number, last_seq, last_listed, last_micros FROM conversations WHERE id = $1",
  read: `SELECT seq, listed_index, json FROM events WHERE ${from}`,
  readLength: summed(from),
  readParsed: `SELECT string_agg('[' || seq || ',' || coalesce(listed_index, 0) || ',' || json || ']', ',') AS items
    FROM (SELECT seq, listed_index, json FROM events WHERE ${from}) found`,
  byId: "SELECT json FROM events WHERE conversation = $1 AND id = $2 AND listed_index IS NOT NULL",
  indexOf: "SELECT listed_index FROM events WHERE conversation = $1 AND id = $2 AND listed_index IS NOT NULL",
  navigations: `SELECT c.number, c.last_listed, n.after, n.target, n.micros FROM conversations c
    LEFT JOIN navigations n ON n.conversation = c.number WHERE c.id = $1 ORDER BY n.after`,
  timeOf: "SELECT timestamp FROM events WHERE conversation = $1 AND listed_index = $2",
  ascending: `SELECT seq, listed_index, json FROM events WHERE ${listed} LIMIT $4`,
  descending: `SELECT json FROM events WHERE ${listed} DESC LIMIT $4`,
  ascendingPage: joined(`${listed} LIMIT $4`),
  descendingPage: joined(`${listed} DESC LIMIT $4`),
  ascendingLength: summed(`${listed} LIMIT $4`),
  descendingLength: summed(`${listed} DESC LIMIT $4`),
  kindAscending: `SELECT json FROM events WHERE ${ofKind} LIMIT $5 OFFSET $6`,
  kindDescending: `SELECT json FROM events WHERE ${ofKind} DESC LIMIT $5 OFFSET $6`,
  kindCount: `SELECT count(*) AS count FROM events
    WHERE conversation = $1 AND kind = $2 AND listed_index BETWEEN $3::bigint AND $4::bigint`,
} as const satisfies EventQueries;
