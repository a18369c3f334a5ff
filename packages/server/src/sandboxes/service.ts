import { randomBytes, randomUUID } from "node:crypto";
import type { Logger } from "pino";
import { errorText, PlatformError } from "../errors.ts";
import type { PageRequest, PageResult, SandboxRow, SandboxStore } from "../store/store.ts";
import type { Sandboxes } from "./api.ts";
import type { DriverSandbox, PreparedSpec, SandboxDriver } from "./driver.ts";
import { Queues } from "./queues.ts";
import type { Sandbox } from "./sandbox.ts";

export interface SandboxServiceOptions {
  driver: SandboxDriver;
  store: SandboxStore;
  /** At least one; the first is the default. */
  specs: PreparedSpec[];
  logger: Pick<Logger, "info" | "warn" | "error">;
  /** After this time a start counts as failed, ms. */
  startTimeoutMs?: number;
}

type Listener = Parameters<Sandboxes["onChange"]>[0];

/** Lifecycle and ownership of sandboxes over one driver. Operations on one sandbox are served one after the other. */
export class SandboxService implements Sandboxes {
  readonly #driver: SandboxDriver;
  readonly #store: SandboxStore;
  readonly #specs: PreparedSpec[];
  readonly #logger: SandboxServiceOptions["logger"];
  readonly #startTimeoutMs: number;
  readonly #queues = new Queues();
  readonly #listeners = new Set<Listener>();
  /** Incarnation by id of the sandboxes whose processes are there, as far as is known. */
  readonly #alive = new Map<string, string>();

  constructor(options: SandboxServiceOptions) {
    this.#driver = options.driver;
    this.#store = options.store;
    this.#specs = options.specs;
    this.#logger = options.logger;
    this.#startTimeoutMs = options.startTimeoutMs ?? 30_000;
  }

  async open(): Promise<void> {
    await this.#driver.open();
    const engine = new Map((await this.#driver.list()).map(({ id, state }) => [id, state]));
    for (const row of this.#store.all()) {
      await this.#adopt(row, engine.get(row.id) ?? "stopped");
      engine.delete(row.id);
    }
    for (const id of engine.keys()) {
      this.#logger.warn({ sandbox: id }, "removing a sandbox that no record belongs to");
      await this.#removeFromEngine(id);
    }
  }

  specs(): PreparedSpec[] {
    return [...this.#specs];
  }

  async create(userId: string, specId?: string, options: { after?: Promise<void> } = {}): Promise<SandboxRow> {
    const spec = specId === undefined ? this.#specs[0]! : this.#spec(specId);
    const row: SandboxRow = {
      id: newSandboxId(),
      userId,
      specId: spec.id,
      status: "STARTING",
      statusDetail: null,
      incarnation: randomUUID(),
      sessionKey: randomBytes(32).toString("base64url"),
      createdAt: Date.now(),
    };
    await this.#store.create(row);
    this.#tell(row);
    this.#startInBackground(row.id, "stopped", options.after);
    return row;
  }

  get(userId: string, id: string): SandboxRow | undefined {
    const row = this.#store.get(id);
    return row?.userId === userId ? row : undefined;
  }

  search(userId: string, page: PageRequest): PageResult<SandboxRow> {
    return this.#store.search({ userId }, page);
  }

  bySessionKey(key: string): SandboxRow | undefined {
    return this.#store.bySessionKey(key);
  }

  async running(id: string): Promise<Sandbox> {
    await this.#queues.idle(id);
    if (this.#store.get(id)?.status !== "RUNNING" || !this.#alive.has(id)) {
      await this.#queues.add(id, async () => {
        const row = this.#existing(id);
        if (row.status === "ERROR") throw new PlatformError("SandboxFailed", row.statusDetail ?? "The sandbox has failed.");
        if (row.status !== "RUNNING" || !this.#alive.has(id)) await this.#bringUp(row);
      });
    }
    return this.#handle(this.#existing(id));
  }

  async pause(userId: string, id: string): Promise<void> {
    this.#owned(userId, id);
    await this.#queues.add(id, async () => {
      const row = this.#owned(userId, id);
      if (row.status === "PAUSED") return;
      if (row.status === "ERROR") throw new PlatformError("SandboxFailed", row.statusDetail ?? "The sandbox has failed.");
      await this.#driver.pause(id).catch((error) => {
        // A sandbox whose processes are gone is as good as paused: a resume starts it on its files.
        if (error?.code !== "SandboxNotRunning") throw error;
        this.#alive.delete(id);
      });
      await this.#change(id, { status: "PAUSED", statusDetail: null }).catch(async (error) => {
        // A frozen sandbox that the record calls running would never be resumed.
        await this.#driver.resume(id).catch(() => {});
        throw error;
      });
    });
  }

  async resume(userId: string, id: string): Promise<void> {
    this.#owned(userId, id);
    await this.#queues.add(id, async () => {
      const row = this.#owned(userId, id);
      if (row.status !== "RUNNING" || !this.#alive.has(id)) await this.#bringUp(row);
    });
  }

  async remove(userId: string, id: string): Promise<void> {
    this.#owned(userId, id);
    await this.#queues.add(id, async () => {
      if (!this.#store.get(id)) return;
      // The record goes first: what a crash leaves in the engine is an orphan, which the next open removes.
      await this.#store.remove(id);
      this.#alive.delete(id);
      this.#tell({ id, removed: true });
      await this.#removeFromEngine(id);
    });
  }

  onChange(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async close(): Promise<void> {
    await this.#queues.allIdle();
    await this.#driver.close();
  }

  /** Brings one record into line with what the engine says after a restart. */
  async #adopt(row: SandboxRow, state: DriverSandbox["state"]): Promise<void> {
    if (state !== "stopped") this.#alive.set(row.id, row.incarnation);
    if (row.status === "STARTING") this.#startInBackground(row.id, state);
    else if (row.status === "RUNNING" && state === "paused") await this.#change(row.id, { status: "PAUSED" });
    else if (row.status === "PAUSED" && state === "running") await this.#change(row.id, { status: "RUNNING" });
  }

  #startInBackground(id: string, state: DriverSandbox["state"], after?: Promise<void>): void {
    this.#queues
      .add(id, async () => {
        await after;
        const row = this.#store.get(id);
        if (row) await this.#bringUp(row, state);
      })
      .catch((error) => this.#logger.warn({ sandbox: id, reason: errorText(error) }, "a sandbox could not be started"));
  }

  /** Makes a sandbox run, from whatever state it is in (`known`, else the engine is asked). New processes are a new incarnation. A failure becomes the record's ERROR. */
  async #bringUp(row: SandboxRow, known?: DriverSandbox["state"]): Promise<void> {
    const { id } = row;
    try {
      const spec = this.#spec(row.specId);
      const state = known ?? (await this.#driver.list()).find((one) => one.id === id)?.state ?? "stopped";
      if (state === "paused") await this.#driver.resume(id);
      const fresh = state === "stopped";
      if (fresh) {
        this.#alive.delete(id);
        await deadline(this.#driver.start({ id, spec }), this.#startTimeoutMs);
      }
      const incarnation = fresh ? randomUUID() : row.incarnation;
      await this.#change(id, { status: "RUNNING", statusDetail: null, incarnation });
      this.#alive.set(id, incarnation);
    } catch (error) {
      const explained = error instanceof PlatformError;
      const reason = explained ? error.message : `The sandbox could not be started: ${errorText(error)}.`;
      await this.#change(id, { status: "ERROR", statusDetail: reason });
      throw explained ? error : new PlatformError("SandboxFailed", reason, { cause: error });
    }
  }

  #handle(row: SandboxRow): Sandbox {
    const { id, incarnation } = row;
    return {
      id,
      incarnation,
      spec: this.#spec(row.specId),
      exec: async (command) => {
        if (this.#alive.get(id) !== incarnation) {
          const what = this.#store.get(id) ? "has been started anew" : "has been deleted";
          throw new PlatformError("SandboxFailed", `The sandbox ${id} ${what}.`);
        }
        try {
          return await this.#driver.exec(id, command);
        } catch (error) {
          const gone = error instanceof PlatformError && (error.code === "SandboxNotRunning" || error.code === "SandboxNotFound");
          if (!gone || this.#store.get(id)?.status !== "RUNNING") throw error;
          this.#alive.delete(id);
          throw new PlatformError("SandboxFailed", `${error.message} The next use brings it back with its files.`, {
            cause: error,
          });
        }
      },
    };
  }

  async #change(id: string, change: Partial<Pick<SandboxRow, "status" | "statusDetail" | "incarnation">>): Promise<void> {
    await this.#store.update(id, change);
    const row = this.#store.get(id);
    if (row) this.#tell(row);
  }

  async #removeFromEngine(id: string): Promise<void> {
    try {
      await this.#driver.remove(id);
    } catch (error) {
      this.#logger.error(
        { sandbox: id, reason: errorText(error) },
        "a sandbox could not be removed; the next start of the server tries again",
      );
    }
  }

  #tell(change: Parameters<Listener>[0]): void {
    for (const listener of this.#listeners) listener(change);
  }

  #existing(id: string): SandboxRow {
    const row = this.#store.get(id);
    if (!row) throw new PlatformError("SandboxNotFound", `There is no sandbox ${id}.`);
    return row;
  }

  #owned(userId: string, id: string): SandboxRow {
    const row = this.#existing(id);
    if (row.userId !== userId) throw new PlatformError("SandboxNotFound", `There is no sandbox ${id}.`);
    return row;
  }

  #spec(id: string): PreparedSpec {
    const spec = this.#specs.find((one) => one.id === id);
    if (!spec) throw new PlatformError("SandboxSpecNotFound", `There is no sandbox spec ${id}.`);
    return spec;
  }
}

/** `sbx-` and 24 letters and digits out of 120 random bits. */
function newSandboxId(): string {
  const alphabet = "abcdefghijklmnopqrstuvwxyz234567";
  return `sbx-${Array.from(randomBytes(24), (byte) => alphabet[byte & 31]).join("")}`;
}

async function deadline(work: Promise<void>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const reason = `The sandbox did not start within ${ms / 1000} s; look at the server's log, and at the load and free memory of the machine.`;
    timer = setTimeout(() => reject(new PlatformError("SandboxFailed", reason)), ms);
  });
  try {
    await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
    // What comes after the deadline is nobody's; a retry finds the sandbox running, or starts it.
    work.catch(() => {});
  }
}
