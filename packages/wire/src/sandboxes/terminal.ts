import { type Static, Type } from "typebox";

/** Largest side of a terminal, in characters. */
export const maxTerminalSide = 1_000;

/**
 * Typed keys as text. Clients may also send them raw: in a binary frame, or in a text frame that is
 * not a frame of this protocol.
 */
export const TerminalInputFrame = Type.Object({ type: Type.Literal("input"), data: Type.String() });

/**
 * The new size of the terminal, in characters. Sizes beyond the bounds are clamped; other values
 * (null from a hidden page) are ignored.
 */
export const TerminalResizeFrame = Type.Object({
  type: Type.Literal("resize"),
  cols: Type.Number(),
  rows: Type.Number(),
});

/** End of input: Ctrl-D on a terminal, otherwise the end of the shell's standard input. */
export const TerminalEofFrame = Type.Object({ type: Type.Literal("eof") });

/** The control frames (JSON text) that a client sends to `/sockets/terminal`. */
export const TerminalFrame = Type.Union([TerminalInputFrame, TerminalResizeFrame, TerminalEofFrame]);
export type TerminalFrame = Static<typeof TerminalFrame>;
