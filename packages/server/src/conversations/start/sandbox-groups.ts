import { setTimeout as sleep } from "node:timers/promises";
import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import { withRepositoryHost } from "@sandpiper/sandbox/network/policy/repository-rule";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import type { AppConversationStartRequest, GroupingStrategy } from "@sandpiper/wire";
import type { Store } from "../../store/store.ts";
import type { Secrets, Settings } from "../../users/api.ts";
import type { SandboxJoins } from "../sandbox-joins.ts";
import { chooseSandbox, type GroupingCandidate } from "./grouping.ts";
import type { Plan } from "./start-plan.ts";
import { findRepository, resolveSources, sourceHosts } from "./start-sources.ts";

/** Interval at which a start looks for a sandbox that another start creates, ms. */
const lookMs = 50;

/** How long a start waits until another start has stored its sandbox, ms. */
const maxWaitMs = 5_000;

export interface SandboxGroupsDeps {
  store: Pick<Store, "conversations" | "startTasks">;
  sandboxes: Pick<Sandboxes, "get" | "getSpec" | "search">;
  joins: Pick<SandboxJoins, "isOpen" | "join" | "mayJoin">;
  settings: Pick<Settings, "view">;
  secrets: Pick<Secrets, "providers">;
}

/** What a conversation requires of a sandbox that it shares. */
interface Wish {
  userId: string;
  strategy: GroupingStrategy;
  specId: string | undefined;
  /** Hosts with ports from which its start clones. */
  hosts: readonly string[];
}

/** The existing sandbox of a start, or none. */
export interface JoinedSandbox {
  /** Undefined: the start creates a sandbox. `leave` is that of `SandboxJoins.join`. */
  joined: { sandboxId: string; leave: () => void } | undefined;
  /** As `StartParts.newest`; undefined where a start needs no look at others. */
  newest: number | undefined;
}

/**
 * Finds the sandboxes that the conversations of a user share. The sandboxes may belong to any node;
 * the owner of a sandbox joins conversations to it.
 */
export class SandboxGroups {
  readonly #deps: SandboxGroupsDeps;

  constructor(deps: SandboxGroupsDeps) {
    this.#deps = deps;
  }

  /**
   * Returns the sandbox that a start without a named sandbox shares; undefined when it creates one.
   * `isHere`: the caller takes this node for the owner, so sandboxes of this node come first.
   * Nothing has validated the request, and for an invalid one the result is undefined.
   */
  async find(
    userId: string,
    request: AppConversationStartRequest,
    { isHere }: { isHere: boolean },
  ): Promise<string | undefined> {
    const { settings, secrets } = this.#deps;
    const strategy = (await settings.view(userId)).sandbox_grouping_strategy ?? "NO_GROUPING";
    if (strategy === "NO_GROUPING" || request.network) return undefined;
    const tokens = await secrets.providers(userId);
    let hosts: string[];
    try {
      hosts = sourceHosts(resolveSources(tokens, findRepository(request), request.plugins ?? []));
    } catch {
      // The node that handles the request refuses it.
      return undefined;
    }
    const specId = request.sandbox_spec_id ?? undefined;
    return (await this.#choose({ userId, strategy, specId, hosts }, isHere)).sandboxId;
  }

  /** As `SandboxJoins.join`. */
  joinNamed(userId: string, sandboxId: string): Promise<() => void> {
    return this.#deps.joins.join(userId, sandboxId);
  }

  /**
   * Joins the sandbox that a start names, else one that its conversation shares. Throws
   * SandboxNotFound, and SandboxElsewhere when another node owns a shared sandbox.
   */
  async join(
    { conversation: { userId }, sandboxId: named, strategy, work }: Plan,
    { sandbox_spec_id, network }: Pick<AppConversationStartRequest, "sandbox_spec_id" | "network">,
  ): Promise<JoinedSandbox> {
    if (named)
      return { joined: { sandboxId: named, leave: await this.joinNamed(userId, named) }, newest: undefined };
    if (strategy === "NO_GROUPING" || network) return { joined: undefined, newest: undefined };
    const { joins } = this.#deps;
    const wish = { userId, strategy, specId: sandbox_spec_id ?? undefined, hosts: sourceHosts(work) };
    for (;;) {
      const { sandboxId, newest } = await this.#choose(wish, true);
      if (sandboxId === undefined) return { joined: undefined, newest };
      if (!joins.mayJoin(sandboxId)) throw new PlatformError("GroupElsewhere", { retryAfter: 1 });
      try {
        return { joined: { sandboxId, leave: await this.joinNamed(userId, sandboxId) }, newest: undefined };
      } catch (error) {
        // The sandbox was removed after it was found.
        if (!(error instanceof PlatformError && error.code === "SandboxNotFound")) throw error;
      }
    }
  }

  /**
   * Chooses a sandbox. When there is none, waits for those that other starts are about to store.
   */
  async #choose(wish: Wish, isHere: boolean): Promise<{ sandboxId: string | undefined; newest: number }> {
    const { store, sandboxes, joins } = this.#deps;
    const { userId, strategy } = wish;
    const deadline = performance.now() + maxWaitMs;
    for (;;) {
      const { sandboxIds, newest } = await store.startTasks.findOpen(userId);
      const { items } = await sandboxes.search(userId, { limit: 1_000 });
      const candidates = await this.#findCandidates(wish, items);
      const own = isHere ? candidates.filter(({ id }) => joins.mayJoin(id)) : [];
      const sandboxId = chooseSandbox(strategy, own) ?? chooseSandbox(strategy, candidates);
      if (sandboxId !== undefined) return { sandboxId, newest };
      const known = new Set(items.map(({ id }) => id));
      const missing = sandboxIds.filter((id) => !known.has(id));
      const stored = await Promise.all(missing.map((id) => sandboxes.get(userId, id)));
      if (stored.every((row) => row !== undefined) || performance.now() > deadline)
        return { sandboxId: undefined, newest };
      await sleep(lookMs);
    }
  }

  async #findCandidates(
    { userId, specId, hosts }: Wish,
    rows: readonly SandboxRow[],
  ): Promise<GroupingCandidate[]> {
    const { store, sandboxes, joins } = this.#deps;
    const reaches = (row: SandboxRow) => {
      const policy = sandboxes.getSpec(row).network;
      return hosts.every((host) => withRepositoryHost(policy, host).allow === policy.allow);
    };
    const fit = rows.filter(
      (row) =>
        (row.status === "RUNNING" || row.status === "STARTING") &&
        row.specId === (specId ?? row.specId) &&
        reaches(row) &&
        joins.isOpen(row.id),
    );
    const counted = fit.map(async ({ id, createdAt }) => {
      const filter = { userId, sandboxId: id, includeSubConversations: true };
      return { id, createdAt, conversations: await store.conversations.count(filter) };
    });
    return Promise.all(counted);
  }
}
