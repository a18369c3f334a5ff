import type { Event } from "@sandpiper/wire";
import { inertJson } from "./inert.ts";

/** The version of the lines that `run --json` prints; new fields do not change it. */
const version = 1;

/** The result of a run, the last line of `run --json`. */
export interface RunResult {
  /** Status of the conversation. */
  status: string;
  exit_code: number;
  /** Rounded to milliseconds. */
  seconds: number;
  tokens: number;
  /** USD. */
  cost: number;
  /** The agent's last text. */
  answer: string | null;
  /** The changes as `git apply` takes them. */
  patch: string | null;
  /** The folder has the changes. */
  applied: boolean;
}

/** Prints a run as one JSON object a line: `start`, `event` for each stored event, `result`. */
export class JsonOutput {
  start(facts: { conversation: string; sandbox: string; server: string }): void {
    this.#write({ type: "start", version, ...facts });
  }

  event(event: Event): void {
    const isStored = event.kind !== "StreamingDeltaEvent" && event.kind !== "ConversationStateUpdateEvent";
    if (isStored) this.#write({ type: "event", event });
  }

  result(result: RunResult): void {
    const seconds = Math.round(result.seconds * 1000) / 1000;
    this.#write({ type: "result", ...result, seconds });
  }

  #write(line: object): void {
    process.stdout.write(`${inertJson(line)}\n`);
  }
}
