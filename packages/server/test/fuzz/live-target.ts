import { hexId, newId } from "@sandpiper/wire";
import { findInconsistencies } from "../chaos/consistency.ts";
import {
  caller,
  type Json,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "../support/platform.ts";
import { descendants, engineFiles, filesWith } from "./leaks.ts";
import { type Outside, openOutside, outsideValues, prepareText } from "./outside.ts";
import type { Credential } from "./requests.ts";
import type { Pool } from "./schema-values.ts";
import {
  commonValues,
  type FuzzTarget,
  LogLines,
  mine,
  planted,
  plantSecrets,
  stopGoals,
  strangers,
  TableCounts,
} from "./target.ts";

type Call = TestPlatform["call"];

/** Most sandboxes and snapshots that requests may leave to the next batch, of each user. */
const mostKept = 3;

/** A conversation with its sandbox, and what belongs to them. */
interface Part {
  userId: string;
  call: Call;
  isPaused: boolean;
  conversation: string;
  sandbox: string;
  sessionKey: string | undefined;
  events: string[];
  callbacks: string[];
}

/** A whole platform with real sandboxes, a model, git providers and an endpoint of callbacks. */
export class LiveTarget implements FuzzTarget {
  readonly port: number;
  readonly secrets: string[];
  /** File work in a sandbox that gets paused has 60 s, git 30 s. */
  readonly slowMs = 70_000;
  readonly batch = 100;
  readonly lanes = 6;
  readonly pools: Pool[];
  readonly #server: TestPlatform;
  readonly #outside: Outside;
  readonly #tables: TableCounts;
  readonly #logs: LogLines;
  readonly #keys: Record<"stranger" | "read-only", string>;
  readonly #processes = new Set(descendants().keys());
  readonly #parts: Part[];
  readonly #inside: boolean;
  #plan = "";
  #snapshots: string[] = [];
  #commits: string[] = [];
  #external = newId();
  #accessToken = "";
  #round = 0;
  #agentProfiles: string[] = [];
  #spareKeys: string[] = [];

  private constructor(
    server: TestPlatform,
    outside: Outside,
    logs: LogLines,
    keys: { stranger: string; "read-only": string },
    inside: boolean,
  ) {
    this.#server = server;
    this.#inside = inside;
    this.#outside = outside;
    this.#logs = logs;
    this.#keys = keys;
    this.port = Number(new URL(server.url).port);
    this.secrets = [planted, ...Object.values(outside.providers).map(({ token }) => token)];
    this.#tables = new TableCounts(server.dataDir);
    const part = (userId: string, isPaused: boolean): Part => ({
      ...{
        userId,
        isPaused,
        conversation: "",
        sandbox: "",
        sessionKey: undefined,
        events: [],
        callbacks: [],
      },
      call: caller(server.url, userId === mine ? server.key : keys.stranger),
    });
    this.#parts = [part(mine, false), part(mine, true), part(strangers, false)];
    this.pools = [
      ...this.#parts.map((one) => (name: string) => this.#values(name, one)),
      (name: string) => this.#mixed(name),
    ];
  }

  /** `inside`: the requests go to the surface of the first sandbox. */
  static async open(inside = false): Promise<LiveTarget> {
    const outside = await openOutside((text) => text.includes(planted));
    const logs = new LogLines();
    const server = await startTestPlatform(
      { maxRequests: 0, outboundPrivate: ["127.0.0.0/8"], logLevel: "info" },
      { write: (line) => void logs.lines.push(line) },
    );
    const { apiKeys } = server.platform;
    const stranger = await apiKeys.create(strangers, "own");
    const reader = await apiKeys.add(mine, { name: "reader", readOnly: true, expiresAt: null });
    const target = new LiveTarget(server, outside, logs, { stranger, "read-only": reader.key }, inside);
    await target.replenish();
    return target;
  }

  get base(): string | undefined {
    return this.#inside ? `/agent/${this.#parts[0]!.sandbox}` : undefined;
  }

  keyOf(credential: Credential): string | undefined {
    if (credential === "none") return undefined;
    if (credential === "wrong") return "sp_no-such-key";
    if (credential === "owner") return this.#server.key;
    return credential === "sandbox" ? this.#parts[0]!.sessionKey : this.#keys[credential];
  }

  async replenish(): Promise<void> {
    await stopGoals(this.#server.platform);
    await this.#quiet();
    this.#outside.drain();
    for (const [index, part] of this.#parts.entries()) {
      await this.#settings(part, index === 2 ? "two" : "one");
      await this.#revive(part);
    }
    const [main] = this.#parts as [Part];
    const { call } = main;
    const plan = { text: "Plan", sandbox_id: main.sandbox, agent_type: "plan" };
    if (!(await this.#conversation(call, this.#plan)))
      this.#plan = (await startConversation(call, "Plan", plan)).id;
    await this.#report(main);
    for (const verb of ["", "/stop"])
      await call("POST", `/api/conversations/${main.conversation}/goal${verb}`, {
        objective: "Done",
        max_iterations: 2,
      });
    await this.#snapshotsOf(main);
    const { apiKeys } = this.#server.platform;
    await apiKeys.create(mine, "spare");
    this.#spareKeys = (await apiKeys.list()).flatMap((row) => (row.name === "spare" ? [row.id] : []));
    this.#accessToken = (
      await call("POST", "/api/v1/webhooks/secrets", { provider: "github" })
    ).body.access_token;
    await call("POST", "/api/agent-profiles/planted", { llm_profile_ref: "planted" });
    this.#agentProfiles = (await call("GET", "/api/agent-profiles")).body.profiles.map(({ id }: Json) => id);
    await this.#trim();
    await this.#quiet();
    this.#round += 1;
  }

  /** Settings that starts depend on, and secrets in all places. */
  async #settings({ call }: Part, userName: string): Promise<void> {
    const cleared = {
      sandbox_base_container_image: "",
      default_sandbox_spec_id: "",
      sandbox_grouping_strategy: "NO_GROUPING",
    };
    await call("POST", "/api/settings", {
      ...cleared,
      confirmation_mode: false,
      security_analyzer: "",
      max_iterations: 20,
    });
    await plantSecrets((path, body) => call("POST", path, body), userName, this.#outside.model.url);
    await call("POST", "/api/add-git-providers", { provider_tokens: this.#outside.providers });
  }

  /** Restarts the part's conversation if it is gone, and restores the status of its sandbox. */
  async #revive(part: Part): Promise<void> {
    const { call } = part;
    let shown = await this.#conversation(call, part.conversation);
    if (!shown || !["RUNNING", "PAUSED"].includes(shown.sandbox_status)) {
      const { id, sandboxId } = await startConversation(call, prepareText);
      Object.assign(part, { conversation: id, sandbox: sandboxId, callbacks: [] });
      await until(async () => {
        shown = await this.#conversation(call, id);
        return ["finished", "error", "idle", "paused"].includes(shown?.execution_status);
      });
    }
    const wanted = part.isPaused ? "PAUSED" : "RUNNING";
    if (shown!.sandbox_status !== wanted)
      await call("POST", `/api/v1/sandboxes/${part.sandbox}/${part.isPaused ? "pause" : "resume"}`);
    part.sessionKey =
      (await call("GET", `/api/v1/sandboxes?id=${part.sandbox}`)).body[0]?.session_api_key ?? undefined;
    const callbacks = `/api/v1/app-conversations/${part.conversation}/callbacks`;
    const webhook = {
      kind: "WebhookCallbackProcessor",
      url: this.#outside.endpoint.url,
      secret: `${planted}-callback`,
    };
    await call("POST", callbacks, webhook);
    const listed: Json[] = (await call("GET", callbacks)).body;
    part.callbacks = listed.map(({ id }) => id).slice(-3);
    for (const { id } of listed.slice(0, -3)) await call("DELETE", `${callbacks}/${id}`);
    const { items } = (await call("GET", `/api/v1/conversation/${part.conversation}/events/search?limit=3`))
      .body;
    part.events = items.map(({ id }: Json) => id);
    if (!part.isPaused) {
      const command = await call("POST", `/api/bash/execute_bash_command?sandbox_id=${part.sandbox}`, {
        command: "true",
      });
      part.events.push(command.body.id);
    }
  }

  async #conversation(call: Call, id: string): Promise<Json | undefined> {
    return id === "" ? undefined : (await call("GET", `/api/v1/app-conversations?ids=${id}`)).body[0];
  }

  /** A conversation that an agent server in the sandbox runs, and a file to read. */
  async #report({ call, sandbox, sessionKey = "" }: Part): Promise<void> {
    const session = { "X-Session-API-Key": sessionKey };
    const reported = await call("POST", "/api/v1/webhooks/conversations", { id: this.#external }, session);
    if (reported.status !== 200) this.#external = newId();
    const file = { ...session, "content-type": "application/octet-stream" };
    await call("PUT", `/api/v1/sandboxes/${sandbox}/files?path=a.txt`, "two\n", file);
    // Requests may have removed the folder, or moved to a time before it was a repository.
    const made =
      "mkdir -p /workspace/project && cd /workspace/project && git init -q && git -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m made";
    await call("POST", `/api/bash/execute_bash_command?sandbox_id=${sandbox}`, { command: made });
    const listed = await call(
      "GET",
      `/api/git/commits?path=/workspace/project&limit=1&sandbox_id=${sandbox}`,
    );
    // Whatever requests have made of the folder; a later sandbox has a whole one.
    this.#commits = (listed.body.commits ?? []).map(({ sha }: Json) => sha);
  }

  async #snapshotsOf({ call, sandbox }: Part): Promise<void> {
    const list = async () =>
      (await call("GET", "/api/v1/snapshots/search")).body.items.map(({ id }: Json) => id);
    let ids: string[] = await list();
    for (const id of ids.slice(mostKept)) await call("DELETE", `/api/v1/snapshots/${id}`);
    if (ids.length === 0) await call("POST", `/api/v1/sandboxes/${sandbox}/snapshots`);
    ids = await list();
    this.#snapshots = ids.slice(0, mostKept);
  }

  /** Deletes what requests have started beyond some sandboxes of each user. */
  async #trim(): Promise<void> {
    const ours = this.#parts.map(({ sandbox }) => sandbox);
    for (const { call, isPaused } of this.#parts) {
      if (isPaused) continue;
      const { items } = (await call("GET", "/api/v1/sandboxes/search")).body;
      const others = items.map(({ id }: Json) => id).filter((id: string) => !ours.includes(id));
      for (const id of others.slice(mostKept)) await call("DELETE", `/api/v1/sandboxes/${id}`);
      for (let round = Math.max(0, this.#round - 1); round <= this.#round; round++) {
        for (const path of ["v1/secrets", "v1/settings/profiles", "agent-profiles"])
          await call("DELETE", `/api/${path}/name-${round}`);
      }
    }
  }

  #values(name: string, part: Part): readonly unknown[] {
    const own = [part.conversation, hexId(part.conversation)];
    switch (name) {
      case "conversation_id":
        return part === this.#parts[0] ? [...own, this.#external] : own;
      case "conversation_id__eq":
      case "parent_conversation_id":
        return own;
      case "ids":
        return [...own, ...part.events];
      case "id":
        return [...own, part.sandbox, ...part.events];
      case "event_id":
        return part.events;
      case "sandbox_id":
      case "sandbox_id__eq":
        return [part.sandbox];
      case "secret_id":
        return ["PLANTED"];
      case "snapshot_id":
        return this.#snapshots;
      case "callback_id":
        return part.callbacks;
      case "profile_id":
        return this.#agentProfiles;
      case "key_id":
        // Never the keys that the requests themselves carry.
        return this.#spareKeys;
      case "key":
        return ["own", this.#server.key];
      case "x-access-token":
        return [this.#accessToken];
      case "name":
      case "new_name":
        return [...commonValues("name"), `name-${this.#round}`];
      case "post_api_cloud_proxy":
        return [this.#ownRequest(part)];
      case "path":
        return [
          ".",
          "a.txt",
          "/workspace/project",
          "/workspace/project/a.txt",
          "src",
          "src/new.txt",
          `/api/conversations/${part.conversation}/events/count`,
        ];
      case "sha":
        return this.#commits;
      case "file":
      case "file_path":
        return ["a.txt", "PLAN.md", "deploy.md", ".openhands/skills/deploy.md"];
      default:
        return outsideValues(name, this.#outside) ?? commonValues(name);
    }
  }

  #ownRequest({ conversation }: Part): Json {
    const headers = { "X-Session-API-Key": this.#server.key };
    return {
      host: this.#server.url,
      method: "GET",
      path: `/api/conversations/${conversation}/events/count`,
      headers,
    };
  }

  /** Ids that do not belong together, and some of nothing. */
  #mixed(name: string): readonly unknown[] {
    const all = this.#parts.flatMap((part) => this.#values(name, part));
    if (name === "conversation_id") return [...all, this.#plan, newId(), `task-${newId()}`];
    return name === "sandbox_id" ? [...all, "gone"] : [...new Set(all)];
  }

  rows(): Record<string, number> {
    return this.#tables.rows();
  }

  async isBusy(): Promise<boolean> {
    const { startTasks, conversations } = this.#server.platform.store;
    const starting = this.#tables.count("sandboxes WHERE status = 'STARTING'");
    if (starting > 0 || (await startTasks.listOpen()).length > 0) return true;
    const runs = [await conversations.listRunning(), await conversations.listWithGoal()];
    return runs.some(({ length }) => length > 0);
  }

  /** Waits until nothing is being started or run. */
  async #quiet(): Promise<void> {
    const end = performance.now() + 60_000;
    await until(async () => !(await this.isBusy()) || performance.now() > end || undefined);
    if (await this.isBusy()) throw new Error("Starts or runs of earlier requests do not end.");
  }

  badLogLines(): string[] {
    return this.#logs.bad(this.secrets);
  }

  async close(): Promise<string[]> {
    const left: string[] = [];
    try {
      await stopGoals(this.#server.platform);
      await this.#quiet();
      // Conversations of a deleted sandbox are kept.
      const strange = findInconsistencies(this.#server.dataDir).filter(
        (text) => !text.startsWith("conversation without its sandbox"),
      );
      left.push(...strange, ...this.#outside.drain());
      left.push(
        ...filesWith(`${this.#server.dataDir}/store`, this.secrets).map((path) => `a secret in ${path}`),
      );
      for (const { call } of this.#parts) {
        for (const what of ["sandboxes", "snapshots"]) await this.#removeAll(call, what);
      }
      left.push(...(await engineFiles(this.#server.dataDir)));
    } catch (error) {
      left.push(String((error as Error).stack));
    } finally {
      this.#tables.close();
      await this.#server.stop();
      await this.#outside.close();
    }
    for (const [pid, command] of descendants())
      if (!this.#processes.has(pid)) left.push(`process ${pid} ${command}`);
    return left;
  }

  async #removeAll(call: Call, what: string): Promise<void> {
    for (;;) {
      const { items } = (await call("GET", `/api/v1/${what}/search?limit=100`)).body;
      if (items.length === 0) return;
      for (const { id } of items) await call("DELETE", `/api/v1/${what}/${id}`);
    }
  }
}
