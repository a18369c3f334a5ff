import type { TerminalAction, TerminalObservation } from "@sandpiper/wire";

/** A persistent shell in a sandbox (agent-behaviour.md section 13). */
export interface Terminal {
  /** Runs, polls, sends input or resets, as the action says. Calls are served one after the other. */
  run(action: TerminalAction, signal: AbortSignal): Promise<TerminalObservation>;
  close(): void;
}
