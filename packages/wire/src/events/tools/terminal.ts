import { type Static, Type } from "typebox";
import { Nullable } from "../../common/schema.ts";
import { observation } from "./observation.ts";

/** Terminal tool (events.md section 3). */

export const TerminalAction = Type.Object({
  kind: Type.Literal("TerminalAction"),
  command: Type.String(),
  is_input: Type.Boolean({ default: false }),
  timeout: Type.Optional(Nullable(Type.Number({ minimum: 0 }))),
  reset: Type.Boolean({ default: false }),
});

export const CmdOutputMetadata = Type.Object({
  exit_code: Type.Integer({ default: -1 }),
  pid: Type.Integer({ default: -1 }),
  username: Type.Optional(Nullable(Type.String())),
  hostname: Type.Optional(Nullable(Type.String())),
  working_dir: Type.Optional(Nullable(Type.String())),
  py_interpreter_path: Type.Optional(Nullable(Type.String())),
  prefix: Type.String({ default: "" }),
  suffix: Type.String({ default: "" }),
});

export const TerminalObservation = Type.Object({
  kind: Type.Literal("TerminalObservation"),
  ...observation,
  command: Type.Optional(Nullable(Type.String())),
  exit_code: Type.Optional(Nullable(Type.Integer())),
  timeout: Type.Boolean({ default: false }),
  metadata: CmdOutputMetadata,
  full_output_save_dir: Type.Optional(Nullable(Type.String())),
});

export type TerminalAction = Static<typeof TerminalAction>;
export type CmdOutputMetadata = Static<typeof CmdOutputMetadata>;
export type TerminalObservation = Static<typeof TerminalObservation>;
