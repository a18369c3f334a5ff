import type { NewRecord } from "@sandpiper/agent/loop/log-record";
import { stateRecord } from "@sandpiper/agent/loop/records";
import { reportedStatus } from "@sandpiper/agent/loop/status";
import { PlatformError } from "@sandpiper/core/errors";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import type { ReportedConversation, ReportedEvent } from "@sandpiper/wire";
import type { Callbacks } from "../../callbacks/api.ts";
import type { ConversationConfig, ConversationRow } from "../../store/conversation-store.ts";
import { emptyConfig } from "../../store/empty-config.ts";
import type { Store } from "../../store/store.ts";
import type { Announcements } from "../run/announcements.ts";
import type { SandboxJoins } from "../sandbox-joins.ts";
import { parseReportedEvent, parseStats, parseStatus } from "./reported-event.ts";

export interface ReportedConversationsDeps {
  store: Pick<Store, "conversations" | "events">;
  callbacks: Pick<Callbacks, "rowsOf">;
  sandboxes: Pick<Sandboxes, "running">;
  joins: Pick<SandboxJoins, "run">;
  announcements: Pick<Announcements, "announceField">;
}

/** Limits per sandbox: conversations, listed events of each, and characters of all events. */
const maxConversations = 100;
const maxEvents = 100_000;
const maxLength = 1024 ** 3;
const maxTags = 50;

/**
 * Stores conversations that an agent server inside a sandbox runs and reports (app-server.md
 * section 8). They are read-only here; reports about conversations that this server runs are
 * rejected.
 */
export class ReportedConversations {
  readonly #deps: ReportedConversationsDeps;
  readonly #queues = new KeyedMutex();
  readonly #lengths = new Map<string, number>();

  constructor(deps: ReportedConversationsDeps) {
    this.#deps = deps;
  }

  /**
   * Stores a reported state, creating the conversation if it is unknown. Throws
   * ConversationNotFound when it belongs to another sandbox, and ConversationExternal when this
   * server runs it or a limit is reached.
   */
  async report(sandbox: SandboxRow, id: string, info: ReportedConversation): Promise<void> {
    if (info.execution_status === "deleting") return;
    await this.#queues.run(id, async () => {
      const row = await this.#open(sandbox, id);
      const tags = mergeTags(row.config.tags, info.tags ?? {});
      const llmModel = info.agent?.llm?.model?.slice(0, 256) || row.config.llmModel;
      const title = info.title?.trim().slice(0, 200);
      const change = {
        ...(JSON.stringify([tags, llmModel]) !== JSON.stringify([row.config.tags, row.config.llmModel]) && {
          config: { tags, llmModel },
        }),
        ...(title && title !== row.title && { title }),
      };
      if (Object.keys(change).length > 0) await this.#deps.store.conversations.update(id, change);

      const status = parseStatus(info.execution_status);
      const records = status ? reportedStatus(row.summary.executionStatus, status) : [];
      const stats = parseStats(info.stats);
      if (stats && Object.keys(stats.usage_to_metrics).length > 0) records.push(stateRecord("stats", stats));
      if (records.length > 0) await this.#deps.store.events.append(id, records);
      if (change.title) this.#deps.announcements.announceField(id, "title", change.title);
    });
  }

  /** Appends the new events, or none of them when it throws as `report` or InvalidParameter. */
  async take(sandbox: SandboxRow, id: string, events: readonly ReportedEvent[]): Promise<void> {
    const parsed = events.map(parseReportedEvent);
    await this.#queues.run(id, async () => {
      const { events: log } = this.#deps.store;
      await this.#open(sandbox, id);
      const ids = parsed.flatMap((record) => record?.event.id ?? []);
      const [stored, count] = await Promise.all([log.batch(id, ids), log.count(id)]);
      const knownIds = new Set(ids.filter((_id, index) => stored[index] !== null));
      const fresh = parsed.filter((record): record is NewRecord => {
        if (!record?.event.id) return record !== undefined;
        const isNew = !knownIds.has(record.event.id);
        knownIds.add(record.event.id);
        return isNew;
      });
      if (fresh.length === 0) return;
      this.#countLength(sandbox.id, JSON.stringify(fresh).length);
      if (count + fresh.length > maxEvents)
        throw new PlatformError("TooManyReportedEvents", { max: maxEvents });
      await log.append(id, fresh);
    });
  }

  async #open(sandbox: SandboxRow, id: string): Promise<ConversationRow> {
    const { conversations } = this.#deps.store;
    // Reports keep the sandbox from becoming idle.
    if (sandbox.status === "RUNNING") this.#deps.sandboxes.running(sandbox.id).catch(() => {});
    const row = (await conversations.get(id)) ?? (await this.#create(sandbox, id));
    if (row.userId !== sandbox.userId || row.sandboxId !== sandbox.id)
      throw new PlatformError("ConversationUnknown");
    if (!row.config.external) throw new PlatformError("RunHere");
    return row;
  }

  async #create(sandbox: SandboxRow, id: string): Promise<ConversationRow> {
    const { store, callbacks, joins } = this.#deps;
    // The store counts again, because other reports may create conversations meanwhile.
    if ((await store.conversations.listBySandbox(sandbox.id)).length >= maxConversations)
      throw new PlatformError("TooManyReportedConversations", { max: maxConversations });
    const workingDir = (sandbox.spec as { workingDir?: string } | null)?.workingDir ?? "/workspace/project";
    const config: ConversationConfig = { ...emptyConfig(workingDir), external: true };
    const { userId, id: sandboxId } = sandbox;
    const createdAt = Date.now();
    const limit = { maxInSandbox: maxConversations };
    const row = {
      ...{ id, userId, sandboxId, config, title: null, parentId: null, createdAt, limit },
      callbacks: callbacks.rowsOf(userId, id, []),
    };
    return joins.run({ userId, sandboxId }, async () => {
      const failure = await store.conversations.create(row).catch((error: unknown) => error);
      // Another node may have stored the conversation meanwhile.
      const isTaken = failure instanceof PlatformError && failure.code === "ConversationExists";
      const stored = failure === undefined || isTaken ? await store.conversations.get(id) : undefined;
      if (!stored) throw failure;
      return stored;
    });
  }

  #countLength(sandboxId: string, length: number): void {
    const total = (this.#lengths.get(sandboxId) ?? 0) + length;
    if (total > maxLength) throw new PlatformError("ReportsTooLarge");
    this.#lengths.set(sandboxId, total);
  }
}

/** Reported tags replace known tags of the same name. */
function mergeTags(stored: Record<string, string>, reported: Record<string, string>): Record<string, string> {
  const bounded = Object.entries(reported).map(
    ([key, value]) => [key.slice(0, 64), value.slice(0, 256)] as const,
  );
  return Object.fromEntries([...Object.entries(stored), ...bounded].slice(0, maxTags));
}
