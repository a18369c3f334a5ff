import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { abortable } from "@sandpiper/core/abortable";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import { Semaphore } from "@sandpiper/core/scheduling/semaphore";
import { type ExecuteBashRequest, hexId, newId } from "@sandpiper/wire";
import type { Sandboxes } from "../../api.ts";
import type { SandboxRow } from "../../sandbox-store.ts";
import type { Bash, BashQuery, CommandGroup, PositionedEvent } from "./api.ts";
import type { Entry } from "./command-log.ts";
import { toCommandJson, toOutputJson } from "./event-json.ts";
import { type HistoryLimits, historyLimits, SandboxHistory } from "./history.ts";
import { JoinedOutput } from "./join-outputs.ts";
import { type ChunkMask, type OutputLimits, outputLimits } from "./output-chunker.ts";
import { isDiskFull, runRecordedCommand } from "./recorded-command.ts";
import { stopped } from "./run-command.ts";

export interface BashLimits extends HistoryLimits, OutputLimits {
  /** Concurrent commands of a sandbox, and commands that wait. */
  running: number;
  waiting: number;
  /** Unused histories that stay in memory. */
  histories: number;
  /** Bytes of output in the answer of `execute`. */
  answerBytes: number;
  /** Bytes of a command; with its variables it must fit into the argument space of Linux. */
  commandBytes: number;
}

export const bashLimits: BashLimits = {
  ...historyLimits,
  ...outputLimits,
  running: 50,
  waiting: 1_000,
  histories: 100,
  answerBytes: 16 * 2 ** 20,
  commandBytes: 1_310_720,
};

export interface BashServiceDeps {
  /** Folder of the logs. */
  dir: string;
  sandboxes: Pick<Sandboxes, "running" | "get" | "onChange">;
  /** For a sandbox, a factory of masks that hide its secrets, one for each stream. */
  mask?: (row: SandboxRow) => Promise<() => ChunkMask>;
  logger: Pick<Logger, "warn">;
  limits?: Partial<BashLimits>;
}

const commandEnded = "The server was ended, and the command with it.";

/** Maximum time that the release of sandboxes waits for the end of their commands, ms. */
const releaseWaitMs = 2_000;

/** The last output of a command whose server was killed. */
const serverEnded =
  "The server ended while this command ran; what it started may still run in the sandbox.\n";

interface Running {
  /** Of the command. */
  id: string;
  /** Aborted with a sentence as its reason. */
  abort: AbortController;
  /** The last output. Never rejects. */
  done: Promise<Entry>;
}

/** Runs commands; one file each keeps their events, as bulk data burdens the database. */
export class BashService implements Bash {
  readonly #options: BashServiceDeps;
  readonly #limits: BashLimits;
  readonly #histories = new Map<string, Promise<SandboxHistory>>();
  readonly #slots = new Map<string, Semaphore>();
  readonly #running = new Map<string, Set<Running>>();
  readonly #forget: () => void;
  #closed = false;

  constructor(options: BashServiceDeps) {
    this.#options = options;
    this.#limits = { ...bashLimits, ...options.limits };
    this.#forget = options.sandboxes.onChange((change) => {
      if ("removed" in change) void this.#remove(change.id);
    });
  }

  /** Removes the leftovers of deleted sandboxes. */
  async open(exists: (sandboxId: string) => Promise<boolean>): Promise<void> {
    const names = await readdir(this.#options.dir).catch(() => []);
    for (const name of names)
      if (!(await exists(name))) await rm(join(this.#options.dir, name), { recursive: true, force: true });
  }

  async start(row: SandboxRow, request: ExecuteBashRequest, group?: CommandGroup): Promise<string> {
    // Followers get chunks as they come.
    const { history, command } = await this.#begin(row, request, { streams: true, group });
    return (await history.texts([command]))[0]!;
  }

  async execute(row: SandboxRow, request: ExecuteBashRequest, group?: CommandGroup): Promise<string> {
    const { history, done } = await this.#begin(row, request, { streams: false, group });
    const last = await done;
    const pieces = last.log.entries.filter(({ order }) => order >= 0 && order < last.order);
    const joined = new JoinedOutput(this.#limits.answerBytes);
    for (const piece of pieces) {
      const [text] = await history.texts([piece]);
      if (text !== undefined) joined.add(text);
    }
    const [text] = await history.texts([last]);
    if (text === undefined) throw new PlatformError("CommandEventsRemoved");
    return pieces.length === 0 ? text : JSON.stringify(joined.end(text));
  }

  async stop(sandboxId: string, commandId: string, group?: string): Promise<void> {
    const log = (await this.#history(sandboxId)).logs.get(commandId);
    if (!log?.isIn(group)) throw new PlatformError("CommandUnknown");
    for (const { id, abort, done } of this.#running.get(sandboxId) ?? []) {
      if (id !== commandId) continue;
      abort.abort(stopped);
      await done;
    }
  }

  async search(sandboxId: string, query: BashQuery): Promise<{ items: Buffer[]; nextPageId: string | null }> {
    const history = await this.#history(sandboxId);
    const { found, nextPageId } = history.search(query);
    return { items: await history.bytes(found), nextPageId };
  }

  async batch(sandboxId: string, ids: readonly string[], group?: string): Promise<(string | null)[]> {
    const history = await this.#history(sandboxId);
    const texts: (string | null)[] = [];
    for (const id of ids) {
      const entry = history.get(id, group);
      texts.push(entry === undefined ? null : ((await history.texts([entry]))[0] ?? null));
    }
    return texts;
  }

  async clear(sandboxId: string, group?: string): Promise<number> {
    return (await this.#history(sandboxId)).clear(group);
  }

  async newest(sandboxId: string): Promise<number> {
    return (await this.#history(sandboxId)).newest;
  }

  async after(sandboxId: string, micros: number): Promise<PositionedEvent[]> {
    const history = await this.#history(sandboxId);
    const events: PositionedEvent[] = [];
    for (const entry of history.after(micros)) {
      const [json] = await history.texts([entry]);
      if (json !== undefined) events.push({ micros: entry.micros, json });
    }
    return events;
  }

  follow(sandboxId: string, listener: () => void): () => void {
    let leave: (() => void) | undefined;
    let left = false;
    this.#history(sandboxId)
      .then((history) => {
        if (!left) leave = history.follow(listener);
        listener();
      })
      .catch((error) =>
        this.#options.logger.warn(
          { sandbox: sandboxId, reason: errorText(error) },
          "command history could not be read",
        ),
      );
    return () => {
      left = true;
      leave?.();
    };
  }

  async release(sandboxIds: readonly string[]): Promise<void> {
    const ended = sandboxIds.flatMap((id) => this.#abort(id, commandEnded));
    await abortable(Promise.all(ended), AbortSignal.timeout(releaseWaitMs)).catch(() => {});
    for (const id of sandboxIds) {
      this.#histories.delete(id);
      this.#slots.delete(id);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#forget();
    await Promise.all([...this.#running.keys()].flatMap((id) => this.#abort(id, commandEnded)));
  }

  /** Ends the commands of a sandbox; `reason` is a sentence. */
  #abort(sandboxId: string, reason: string): Promise<unknown>[] {
    return [...(this.#running.get(sandboxId) ?? [])].map(({ abort, done }) => {
      abort.abort(reason);
      return done;
    });
  }

  async #begin(
    row: SandboxRow,
    request: ExecuteBashRequest,
    { streams, group }: { streams: boolean; group: CommandGroup | undefined },
  ) {
    const { command, cwd = null, timeout: asked = 300 } = request;
    const timeout = Math.max(1, asked);
    const { id: sandboxId } = row;
    if (row.status === "ERROR") throw new PlatformError("SandboxHasFailed", { reason: row.statusDetail });
    if (Buffer.byteLength(command) > this.#limits.commandBytes)
      throw new PlatformError("CommandTooLong", { maxBytes: this.#limits.commandBytes });
    if (this.#closed) throw new PlatformError("ServerStopping");
    const slots = this.#slots.get(sandboxId) ?? new Semaphore(this.#limits.running);
    this.#slots.set(sandboxId, slots);
    if (slots.waiting >= this.#limits.waiting)
      throw new PlatformError("TooManyWaitingCommands", { count: slots.waiting }, { retryAfter: 5 });
    const ticket = slots.enter();
    const leave = () => {
      ticket.release();
      if (slots.isIdle && this.#slots.get(sandboxId) === slots) this.#slots.delete(sandboxId);
    };
    const abort = new AbortController();
    try {
      const [history, mask] = await Promise.all([this.#history(sandboxId), this.#options.mask?.(row)]);
      const id = hexId(newId());
      const entry = await history
        .begin(id, (micros) => toCommandJson(micros, { id, command, cwd, timeout }), group?.id)
        .catch(throwStorageFull);
      // The server may have begun to stop in the meantime.
      if (this.#closed) abort.abort(commandEnded);
      const { sandboxes } = this.#options;
      const done = runRecordedCommand({
        request: { command, cwd, timeout, folder: group?.folder },
        history,
        log: entry.log,
        abort,
        // The command's timeout begins after the wait for its turn.
        sandbox: () => ticket.ready.then(() => sandboxes.running(row.id)),
        // A kill from outside of the sandbox works in every state of the sandbox.
        frozen: async () => {
          const current = await sandboxes.get(row.userId, row.id).catch(() => undefined);
          return current?.status !== "RUNNING";
        },
        limits: this.#limits,
        mask,
        streams,
      });
      const running: Running = { id, abort, done };
      const others = this.#running.get(sandboxId) ?? new Set();
      this.#running.set(sandboxId, others.add(running));
      void done.then(() => {
        leave();
        others.delete(running);
        if (others.size === 0 && this.#running.get(sandboxId) === others) this.#running.delete(sandboxId);
      });
      return { history, command: entry, done };
    } catch (error) {
      leave();
      throw error;
    }
  }

  /** Loads a history on first use and ends commands that an earlier server left unfinished. */
  #history(sandboxId: string): Promise<SandboxHistory> {
    const known = this.#histories.get(sandboxId);
    if (known) {
      // Keeps the least recently used first.
      this.#histories.delete(sandboxId);
      this.#histories.set(sandboxId, known);
      return known;
    }
    const loading = this.#load(sandboxId);
    this.#histories.set(sandboxId, loading);
    loading.catch(() => this.#histories.delete(sandboxId));
    if (this.#histories.size > this.#limits.histories) void this.#unload();
    return loading;
  }

  async #load(sandboxId: string): Promise<SandboxHistory> {
    const history = await SandboxHistory.load(join(this.#options.dir, sandboxId), this.#limits);
    for (const log of history.logs.values()) {
      if (log.ended) continue;
      const rest = { stdout: "null", stderr: JSON.stringify(serverEnded) };
      await history.append(log, (micros) => toOutputJson(micros, log.id, log.nextOrder, -1, rest), true);
    }
    return history;
  }

  async #unload(): Promise<void> {
    for (const [sandboxId, loading] of [...this.#histories]) {
      if (this.#histories.size <= this.#limits.histories) return;
      const history = await loading.catch(() => undefined);
      const unused = history?.idle && !this.#slots.has(sandboxId);
      if (unused && this.#histories.get(sandboxId) === loading) this.#histories.delete(sandboxId);
    }
  }

  async #remove(sandboxId: string): Promise<void> {
    try {
      await Promise.all(this.#abort(sandboxId, "The sandbox was deleted."));
      await (await this.#history(sandboxId)).remove();
      this.#histories.delete(sandboxId);
    } catch (error) {
      this.#options.logger.warn(
        { sandbox: sandboxId, reason: errorText(error) },
        "command history could not be removed",
      );
    }
  }
}

function throwStorageFull(error: unknown): never {
  if (!isDiskFull(error)) throw error;
  throw new PlatformError("CommandDiskFull");
}
