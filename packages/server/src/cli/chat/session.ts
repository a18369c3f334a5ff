import type { Event, ExecutionStatus } from "@sandpiper/wire";
import { Changes, type Patch } from "../changes.ts";
import type { Client } from "../client.ts";
import type { CopySource } from "../copy-source.ts";
import { CliError } from "../errors.ts";
import { extractTar } from "../extract.ts";
import { followRun } from "../follow.ts";
import { getInvoker } from "../invoker.ts";
import { beginTask, type Task, type TaskRun } from "../task.ts";
import { createTemporaryFolder } from "../temporary-folder.ts";
import { sendMentions } from "./mentions.ts";

/** Messages that can be undone. */
const maxUndos = 20;

interface Turn {
  /** The event before the message; null at the beginning. */
  before: string | null;
  snapshot: string;
  /** Changes were applied to the folder after it. */
  applied?: boolean;
}

export interface SessionEvents {
  onEvent: (event: Event) => void;
  /** Asks about waiting actions; returns whether the run continues. */
  confirm: (conversationId: string) => Promise<boolean>;
  /** A run ended, with its status. */
  onEnd: (status: ExecutionStatus) => void;
  onError: (error: Error) => void;
}

/** The work of a session; its folder may be the repository of the user's own folder. */
export interface ChatTask extends Task {
  own: string;
  source: CopySource;
}

export interface SessionParts {
  client: Client;
  task: ChatTask;
  run: TaskRun;
  changes: Changes;
  events: SessionEvents;
}

/** A conversation of `chat` with its sandbox and the folder that it works on. */
export class Session {
  readonly #parts: SessionParts;
  readonly #turns: Turn[] = [];
  #changes: Changes;
  #isRunning = false;
  /** A message was sent while the agent worked, so the run may go on after its end. */
  #goesOn = false;

  constructor(parts: SessionParts) {
    this.#parts = parts;
    this.#changes = parts.changes;
  }

  get isRunning(): boolean {
    return this.#isRunning;
  }

  get folder(): string {
    return this.#parts.task.folder;
  }

  get conversationId(): string | undefined {
    return this.#parts.run.conversationId;
  }

  /**
   * Sends a message; the agent reads one that is sent while it works before its next step. Names of
   * files in the texts that were `pasted` send no files.
   */
  async send(message: string, pasted: readonly string[]): Promise<void> {
    const { client, run, task } = this.#parts;
    const { sandbox, workingDir } = run;
    const onCopy = (path: string) => this.#changes.include(path);
    const place = { folder: task.folder, own: task.own, sandboxId: sandbox.id, workingDir, onCopy };
    const text = await sendMentions(client, place, message, pasted);
    if (this.#isRunning) {
      this.#goesOn = true;
      await client.say(run.conversationId!, text);
      return;
    }
    this.#isRunning = true;
    try {
      await this.#remember();
      const where = run.conversationId ? "" : task.source.place;
      await beginTask(client, { ...task, text: text + where }, run);
    } catch (error) {
      this.#isRunning = false;
      throw error;
    }
    void this.#follow(run.conversationId!);
  }

  /** Goes on with actions that wait for approval since an earlier command. */
  async takeUp(): Promise<void> {
    const { client, run } = this.#parts;
    if (!run.conversationId) return;
    const { execution_status } = await client.conversation(run.conversationId);
    if (execution_status !== "waiting_for_confirmation") return;
    this.#isRunning = true;
    void this.#follow(run.conversationId);
  }

  async interrupt(): Promise<void> {
    const { client, run } = this.#parts;
    if (this.#isRunning && run.conversationId) await client.interrupt(run.conversationId);
  }

  /**
   * Takes the last message back, with everything that followed it, files included. `applied`: but
   * changes were applied to the folder since.
   */
  async undo(): Promise<"nothing" | "done" | "applied"> {
    const { client, run } = this.#parts;
    if (this.#isRunning) throw new CliError("The agent works: stop it first, with Ctrl-C.");
    const turn = this.#turns.pop();
    if (!turn || !run.conversationId) return "nothing";
    const id = run.conversationId;
    await client.json("POST", `/api/conversations/${id}/navigate`, { json: { event_id: turn.before } });
    await this.#drop(turn);
    return turn.applied ? "applied" : "done";
  }

  async useModel(model: string): Promise<void> {
    const { client, run, task } = this.#parts;
    task.model = model;
    if (run.conversationId) await client.switchModel(run.conversationId, { ...task.endpoint, model });
  }

  /** The changes of the sandbox's copy so far. */
  async patch(): Promise<Patch | undefined> {
    const { client, run } = this.#parts;
    const copy = await createTemporaryFolder("chat", getInvoker());
    try {
      await extractTar(await client.download(run.sandbox.id, run.workingDir), copy.path);
      return await this.#changes.compare(copy.path);
    } finally {
      await copy.remove();
    }
  }

  /** What `patch` compares with. */
  get changes(): Changes {
    return this.#changes;
  }

  /** After changes were applied, they belong to the folder. */
  async markApplied(): Promise<void> {
    const { task } = this.#parts;
    const before = this.#changes;
    for (const turn of this.#turns) turn.applied = true;
    this.#changes = await Changes.since(task.folder, getInvoker(), undefined, task.source.includes);
    await before.close();
  }

  async close(): Promise<void> {
    await this.interrupt().catch(() => {});
    for (const turn of this.#turns.splice(0)) await this.#drop(turn);
    await this.#changes.close();
  }

  async #follow(id: string): Promise<void> {
    const { client, run, events } = this.#parts;
    try {
      let status: ExecutionStatus;
      do {
        this.#goesOn = false;
        status = await followRun(client, id, events.onEvent, undefined, run.seen);
        if (status === "waiting_for_confirmation" && (await events.confirm(id))) this.#goesOn = true;
      } while (this.#goesOn);
      this.#isRunning = false;
      events.onEnd(status);
    } catch (error) {
      this.#isRunning = false;
      events.onError(error as Error);
    }
  }

  /** Keeps what `undo` goes back to. */
  async #remember(): Promise<void> {
    const { client, run } = this.#parts;
    const { id } = await client.json<{ id: string }>(
      "POST",
      `/api/v1/sandboxes/${encodeURIComponent(run.sandbox.id)}/snapshots`,
    );
    const last = run.conversationId ? (await client.events(run.conversationId)).at(-1) : undefined;
    this.#turns.push({ before: last?.id ?? null, snapshot: id });
    const old = this.#turns.length > maxUndos ? this.#turns.shift() : undefined;
    if (old) await this.#drop(old);
  }

  async #drop({ snapshot }: Turn): Promise<void> {
    await this.#parts.client
      .json("DELETE", `/api/v1/snapshots/${encodeURIComponent(snapshot)}`)
      .catch(() => {});
  }
}
