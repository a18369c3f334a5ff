import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { describeFileFailure } from "@sandpiper/core/describe-file-failure";
import {
  type RecordedCall,
  RecordedCall as RecordedCallSchema,
  RecordedEvent,
  type RecordedMessage,
  RecordedMessageLine,
  RecordedSystemLine,
  type RecordedTool,
  RecordedToolsLine,
  RecordingEnd,
  RecordingHeader,
  type RecordingLine,
  recordingVersion,
} from "@sandpiper/wire";
import type { Static, TSchema } from "typebox";
import { Compile } from "typebox/schema";

/** Maximum size of a recording, and of a line, bytes. */
const maxBytes = 256 * 1024 * 1024;
const maxLine = 64 * 1024 * 1024;

/** The reason why a file cannot be replayed. */
export class RecordingUnusable extends Error {}

/** A recording in memory: events and calls in order, parts of prompts by number. */
export interface Recording {
  header: RecordingHeader;
  events: Static<typeof RecordedEvent>[];
  systems: string[][];
  tools: RecordedTool[][];
  messages: RecordedMessage[];
  calls: RecordedCall[];
}

const checks = Object.fromEntries(
  Object.entries({
    recording: RecordingHeader,
    event: RecordedEvent,
    system: RecordedSystemLine,
    tools: RecordedToolsLine,
    message: RecordedMessageLine,
    call: RecordedCallSchema,
    end: RecordingEnd,
  }).map(([line, schema]) => [line, Compile(schema as TSchema)]),
);

/** Reads a recording; unknown lines and fields are skipped. Throws RecordingUnusable. */
export async function readRecording(file: string): Promise<Recording> {
  const reader = new LineReader();
  try {
    const { size } = await stat(file);
    if (size > maxBytes)
      throw new RecordingUnusable(
        `It is ${Math.ceil(size / 2 ** 20)} MB long; recordings up to ${maxBytes / 2 ** 20} MB are replayed.`,
      );
    let rest: Buffer[] = [];
    for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
      let from = 0;
      for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
        reader.line(Buffer.concat([...rest, chunk.subarray(from, end)]));
        rest = [];
        from = end + 1;
      }
      rest.push(chunk.subarray(from));
      if (rest.length * chunk.length > maxLine)
        throw new RecordingUnusable(`Line ${reader.lines + 1} is too long.`);
    }
    reader.line(Buffer.concat(rest));
    return reader.recording();
  } catch (error) {
    if (error instanceof RecordingUnusable)
      throw new RecordingUnusable(`${file} cannot be replayed. ${error.message}`);
    throw new RecordingUnusable(`${file} cannot be read: ${describeFileFailure(error)}.`);
  }
}

class LineReader {
  lines = 0;
  #header: RecordingHeader | undefined;
  #end: Static<typeof RecordingEnd> | undefined;
  readonly #parts: Omit<Recording, "header"> = {
    events: [],
    systems: [],
    tools: [],
    messages: [],
    calls: [],
  };

  line(bytes: Buffer): void {
    const text = bytes.toString("utf8").trim();
    if (text === "") return;
    this.lines++;
    let line: { line?: unknown };
    try {
      line = JSON.parse(text) as { line?: unknown };
    } catch {
      throw new RecordingUnusable(
        this.#header
          ? `Line ${this.lines} is not JSON: the file was cut off or changed.`
          : "It is not a recording: its first line is not JSON.",
      );
    }
    const kind = typeof line === "object" && line !== null ? line.line : undefined;
    if (!this.#header && kind !== "recording")
      throw new RecordingUnusable("It is not a recording: the first line is no header of one.");
    if (kind === "recording") this.#checkVersion(line as { version?: unknown });
    if (this.#end) throw new RecordingUnusable(`Line ${this.lines} comes after the end.`);
    if (typeof kind !== "string" || !Object.hasOwn(checks, kind)) return;
    const check = checks[kind]!;
    if (!check.Check(line)) {
      const problem = check.Errors(line)[1][0];
      throw new RecordingUnusable(
        `Line ${this.lines} (${kind}) is wrong${problem ? ` at ${problem.instancePath || "its top"}: ${problem.message}` : ""}.`,
      );
    }
    this.#take(line as RecordingLine);
  }

  recording(): Recording {
    if (!this.#header) throw new RecordingUnusable("It is empty.");
    const { events, calls } = this.#parts;
    if (!this.#end || this.#end.events !== events.length || this.#end.calls !== calls.length)
      throw new RecordingUnusable("It is cut off: export the conversation again.");
    return { header: this.#header, ...this.#parts };
  }

  #checkVersion({ version }: { version?: unknown }): void {
    if (this.#header) throw new RecordingUnusable(`Line ${this.lines} is a second header.`);
    if (typeof version === "number" && version > recordingVersion)
      throw new RecordingUnusable(
        `It has version ${version} of the format, and this program knows those up to ${recordingVersion}: use a newer one.`,
      );
  }

  #take(line: RecordingLine): void {
    const { events, systems, tools, messages, calls } = this.#parts;
    const numbered = <T>(list: T[], number: number, value: T) => {
      if (number !== list.length)
        throw new RecordingUnusable(
          `Line ${this.lines} (${line.line}) has the number ${number} in the place of ${list.length}.`,
        );
      list.push(value);
    };
    switch (line.line) {
      case "recording":
        this.#header = line;
        return;
      case "event":
        if (line.seq <= (events.at(-1)?.seq ?? 0))
          throw new RecordingUnusable(`Line ${this.lines}: the events are not in order.`);
        events.push(line);
        return;
      case "system":
        return numbered(systems, line.number, line.blocks);
      case "tools":
        return numbered(tools, line.number, line.tools);
      case "message":
        return numbered(messages, line.number, line.message);
      case "call": {
        const isThere = line.messages.every(([first, count]) => first + count <= messages.length);
        if (!isThere || line.system >= systems.length || line.tools >= tools.length)
          throw new RecordingUnusable(
            `Line ${this.lines}: the call names parts of a prompt that are not there.`,
          );
        if (Boolean(line.response) === Boolean(line.failure))
          throw new RecordingUnusable(
            `Line ${this.lines}: the call has neither an answer nor a failure, or both.`,
          );
        calls.push(line);
        return;
      }
      case "end":
        this.#end = line;
    }
  }
}
