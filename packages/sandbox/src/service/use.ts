import type { DiskWatch } from "./disk-watch.ts";
import type { SandboxRuntimeState } from "./runtime-state.ts";

export interface SandboxUseDeps {
  states: ReadonlyMap<string, SandboxRuntimeState>;
  /** Milliseconds since the epoch. */
  now: () => number;
  disk: Pick<DiskWatch, "allowGrace" | "noteUse">;
}

/** Records the times at which sandboxes are used. */
export class SandboxUse {
  readonly #deps: SandboxUseDeps;

  constructor(deps: SandboxUseDeps) {
    this.#deps = deps;
  }

  /** Records a use. Does nothing for an unknown sandbox. */
  note(id: string): void {
    const state = this.#deps.states.get(id);
    if (!state) return;
    this.noteEnd(state);
    this.#deps.disk.noteUse(id);
  }

  /** Lets a sandbox that was stopped for its size run for a minute. */
  allowGrace(id: string): void {
    this.#deps.disk.allowGrace(id);
  }

  /** Records the end of a use. */
  noteEnd(state: SandboxRuntimeState): void {
    state.lastUsedAt = this.#deps.now();
  }
}
