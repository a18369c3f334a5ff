import { type Hooks, stopHookText } from "@sandpiper/agent/hooks/hooks";
import { nudge } from "@sandpiper/agent/loop/records";
import { transition } from "@sandpiper/agent/loop/status";
import type { RunLog } from "./run-log.ts";

/** Maximum number of times that Stop hooks can continue one run. */
const maxHeldEnds = 10;

export interface RunTurnDeps {
  log: Pick<RunLog, "append" | "follower">;
  hooks: Pick<Hooks, "beforeStop" | "holdsEnd" | "userPrompt">;
}

/** The turn of one run: which messages hooks and model have seen, and whether the turn may end. */
export class RunTurn {
  readonly #deps: RunTurnDeps;
  #heldEnds = 0;
  /** The model has read up to this sequence number. */
  #readSeq = 0;

  constructor(deps: RunTurnDeps) {
    this.#deps = deps;
  }

  /** Whether the log has a message of the user that the model has not read. */
  get hasUnseenMessage(): boolean {
    return this.#deps.log.follower.state.lastUserMessageSeq > this.#readSeq;
  }

  /** Notes that the model has read the log up to this sequence number. */
  noteRead(seq: number): void {
    this.#readSeq = seq;
  }

  /** Shows new messages to the hooks. False when they blocked all of them. */
  async checkMessages(): Promise<boolean> {
    const { log, hooks } = this.#deps;
    const next = () => log.follower.state.unchecked.shift();
    let blocked = 0;
    let admitted = 0;
    for (let message = next(); message; message = next()) {
      const verdict = await hooks.userPrompt(message);
      if (verdict.blocked === undefined) admitted++;
      else blocked++;
    }
    return blocked === 0 || admitted > 0;
  }

  /**
   * Asks the Stop hooks whether a turn that is over may end, and appends their decision. Returns
   * true when it ends.
   */
  async endIfOver(): Promise<boolean> {
    const { log, hooks } = this.#deps;
    const { state } = log.follower;
    if (!state.turnOver || !hooks.holdsEnd || this.hasUnseenMessage) return false;
    const { blocked } = await hooks.beforeStop();
    const ends = blocked === undefined || this.#heldEnds === maxHeldEnds;
    if (!ends) this.#heldEnds++;
    const last = `The Stop hooks asked ${maxHeldEnds} times to go on: the turn ends here.`;
    await log.append([
      ...(blocked === undefined ? [] : [nudge(ends ? last : stopHookText(blocked))]),
      ...(ends ? transition(state.status, "finish") : []),
    ]);
    return ends;
  }
}
