import { type Static, Type } from "typebox";
import { Nullable, Page } from "../common/schema.ts";

/** Commands in a sandbox and what they print (agent-server.md section 7). Ids are 32 hex digits. */

/** Maximum time limit of a command, seconds. */
export const maxBashTimeout = 1_000_000;

const command = Type.String({
  maxLength: 1_310_720,
  description: "run by bash where the sandbox has it, else by sh",
});
const cwd = Nullable(
  Type.String({
    maxLength: 4_000,
    description: "relative ones start at the sandbox's working folder; default: that folder",
  }),
);
const id = Type.String({ pattern: "^[0-9a-f]{32}$", examples: ["5b1c9a4e0f3d4a6fb2d7c8e9f0a1b2c3"] });
const timestamp = Type.String({ format: "date-time", examples: ["2026-01-31T12:00:00.123456Z"] });

/** The request that starts a command. */
export const ExecuteBashRequest = Type.Object({
  command,
  cwd: Type.Optional(cwd),
  timeout: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: maxBashTimeout,
      default: 300,
      description: "seconds, from when the command runs; 0 is 1",
    }),
  ),
});
export type ExecuteBashRequest = Static<typeof ExecuteBashRequest>;

/** A command that was started. */
export const BashCommand = Type.Object({
  id,
  timestamp,
  command,
  cwd,
  timeout: Type.Integer({ description: "seconds" }),
  kind: Type.Literal("BashCommand"),
});
export type BashCommand = Static<typeof BashCommand>;

/** A piece of what a command printed; the last one carries the exit code. */
export const BashOutput = Type.Object({
  id,
  timestamp,
  command_id: id,
  order: Type.Integer({ minimum: 0, description: "counts the pieces of one command from 0" }),
  exit_code: Nullable(
    Type.Integer({
      description: "null: it still runs; -15: it was stopped; -1: it was ended, and stderr says why",
    }),
  ),
  stdout: Nullable(Type.String()),
  stderr: Nullable(Type.String()),
  kind: Type.Literal("BashOutput"),
});
export type BashOutput = Static<typeof BashOutput>;

export const BashEvent = Type.Union([BashCommand, BashOutput]);
export type BashEvent = Static<typeof BashEvent>;

export const BashEventPage = Page(BashEvent);

export const BashCleared = Type.Object({
  cleared_count: Type.Integer({ minimum: 0, description: "events that were removed" }),
});
