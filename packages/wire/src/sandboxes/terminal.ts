import { type Static, Type } from "typebox";

/** Largest side of a terminal, in characters. */
export const maxTerminalSide = 1_000;

/** Keys that a person types, as text. The same may be sent raw, in a binary frame or in a text frame that is no frame of this protocol. */
export const TerminalInputFrame = Type.Object({ type: Type.Literal("input"), data: Type.String() });

/** The new size of a person's terminal, in characters. Sizes beyond the bounds are brought to them; others (null, as of a hidden page) are ignored. */
export const TerminalResizeFrame = Type.Object({
  type: Type.Literal("resize"),
  cols: Type.Number(),
  rows: Type.Number(),
});

/** The input is over: on a terminal what Ctrl-D is, without one the end of the shell's standard input. */
export const TerminalEofFrame = Type.Object({ type: Type.Literal("eof") });

/** The control frames (JSON text) that a client sends to `/sockets/terminal`. */
export const TerminalFrame = Type.Union([TerminalInputFrame, TerminalResizeFrame, TerminalEofFrame]);
export type TerminalFrame = Static<typeof TerminalFrame>;
