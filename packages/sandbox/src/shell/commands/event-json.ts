import { type BashCommand, type BashOutput, hexId, newId } from "@sandpiper/wire";
import { eventTime } from "@sandpiper/wire/common/time";

/** Limit of an output, bytes: clients close sockets above 1 MiB (remote-clients.md section 5). */
export const maxOutputJsonBytes = 1_000_000;

/** Size of the fields other than stdout and stderr, bytes. */
const maxFrameBytes = 400;

/** The JSON of an event with the fields that are kept in memory. */
export interface EventJson {
  id: string;
  micros: number;
  /** Position among the outputs; -1 for a command. */
  order: number;
  exitCode: number | null;
  json: string;
}

export type Chunk = Pick<BashOutput, "stdout" | "stderr">;

/** The JSON of a chunk: escaping is expensive and done once. */
export interface ChunkJson {
  stdout: string;
  stderr: string;
}

// `parseHead` reads the first keys of both events.

export function toCommandJson(
  micros: number,
  { id, ...rest }: Omit<BashCommand, "timestamp" | "kind">,
): EventJson {
  const event: BashCommand = { id, timestamp: toTimestamp(micros), ...rest, kind: "BashCommand" };
  return { id, micros, order: -1, exitCode: null, json: JSON.stringify(event) };
}

export function toOutputJson(
  micros: number,
  commandId: string,
  order: number,
  exitCode: number | null,
  text: ChunkJson,
): EventJson {
  const id = hexId(newId());
  const head: Omit<BashOutput, "stdout" | "stderr" | "kind"> = {
    id,
    timestamp: toTimestamp(micros),
    command_id: commandId,
    order,
    exit_code: exitCode,
  };
  const front = JSON.stringify(head).slice(0, -1);
  return {
    id,
    micros,
    order,
    exitCode,
    json: `${front},"stdout":${text.stdout},"stderr":${text.stderr},"kind":"BashOutput"}`,
  };
}

const head =
  /^(\d{1,8}) \{"id":"([0-9a-f]{32})","timestamp":"([0-9T:.-]{26})Z"(?:,"command_id":"[0-9a-f]{32}","order":(\d{1,9}),"exit_code":(null|-?\d{1,9}))?/;

/** Number of bytes that `parseHead` needs. */
export const headBytes = 256;

/** Parses the beginning of a stored line `<bytes> <json>`; undefined when it is invalid. */
export function parseHead(
  text: string,
): (Omit<EventJson, "json"> & { start: number; length: number }) | undefined {
  const found = head.exec(text);
  if (!found) return undefined;
  const [, length = "", id = "", timestamp = "", order = "-1", exit = "null"] = found;
  const micros = Date.parse(`${timestamp.slice(0, 23)}Z`) * 1000 + Number(timestamp.slice(23));
  if (Number.isNaN(micros)) return undefined;
  const exitCode = exit === "null" ? null : Number(exit);
  return { id, micros, order: Number(order), exitCode, start: length.length + 1, length: Number(length) };
}

/** Splits a chunk into parts that fit into one output: control characters grow sixfold in JSON. */
export function splitToFit({ stdout, stderr }: Chunk): ChunkJson[] {
  const whole = { stdout: toJson(stdout), stderr: toJson(stderr) };
  if (Buffer.byteLength(whole.stdout) + Buffer.byteLength(whole.stderr) + maxFrameBytes <= maxOutputJsonBytes)
    return [whole];
  const outs = splitText(stdout).map((text) => ({ stdout: text, stderr: "null" }));
  const errs = splitText(stderr).map((text) => ({ stdout: "null", stderr: text }));
  return [...outs, ...errs];
}

function splitText(text: string | null): string[] {
  if (!text) return [];
  const json = toJson(text);
  if (Buffer.byteLength(json) + maxFrameBytes <= maxOutputJsonBytes) return [json];
  const middle = text.length >> 1;
  // Does not split a surrogate pair.
  const at = /[\uDC00-\uDFFF]/.test(text[middle]!) ? middle - 1 : middle;
  return [...splitText(text.slice(0, at)), ...splitText(text.slice(at))];
}

function toJson(text: string | null): string {
  return JSON.stringify(text || null);
}

function toTimestamp(micros: number): string {
  return `${eventTime(micros)}Z`;
}
