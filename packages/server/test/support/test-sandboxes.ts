import type { Duplex } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import type { CreateOptions, Sandboxes, Snapshots } from "@sandpiper/sandbox/api";
import type { SandboxSpec } from "@sandpiper/sandbox/driver";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { SandboxRow, SnapshotRow } from "@sandpiper/sandbox/sandbox-store";
import { slicePage } from "../../src/http/server/params.ts";
import { defaultUser } from "../../src/users/default-user.ts";

/** For tests: records of sandboxes without an engine. */
export class SandboxRecords implements Sandboxes {
  readonly rows = new Map<string, SandboxRow>();

  add(change: Partial<SandboxRow> = {}): SandboxRow {
    const number = this.rows.size + 1;
    const row: SandboxRow = {
      id: `sandbox-${number}`,
      userId: defaultUser,
      specId: "host",
      status: "RUNNING",
      statusDetail: null,
      incarnation: "1",
      sessionKey: `session-key-${number}`,
      createdAt: 1_767_225_600_000,
      spec: null,
      prepared: true,
      snapshotId: null,
      lastUsedAt: 1_767_225_600_000,
      ...change,
    };
    this.rows.set(row.id, row);
    return row;
  }
  async open() {}
  async adopt() {}
  async release() {}
  async close() {}
  specs: Sandboxes["specs"] = () => [
    {
      id: "host",
      root: { kind: "host" },
      command: null,
      env: { LANG: "C.UTF-8" },
      workingDir: "/workspace/project",
      user: { name: "agent", uid: 1000, gid: 1000, home: "/home/agent" },
      limits: { memoryBytes: 1, pids: 1, cpus: 1, diskBytes: 1 },
      network: { mode: "none", allow: [], credentials: [] },
    },
  ];
  async resolveSpec(_userId: string, specId = "host") {
    if (specId !== "host")
      throw new PlatformError("SandboxSpecNotFound", `The sandbox spec ${specId} does not exist.`);
    return this.specs()[0]!;
  }
  getSpec = (row: SandboxRow) => (row.spec as SandboxSpec | null) ?? this.specs()[0]!;
  async create(userId: string, specId?: string, options: CreateOptions = {}) {
    const spec = await this.resolveSpec(userId, specId);
    if (options.snapshotId !== undefined && !(await this.snapshots.get(userId, options.snapshotId)))
      throw new PlatformError("SnapshotNotFound", `There is no snapshot ${options.snapshotId}.`);
    const network = { ...spec.network, ...options.network };
    const { id, snapshotId = null } = options;
    return this.add({
      ...(id && { id }),
      userId,
      status: "STARTING",
      spec: { ...spec, network },
      snapshotId,
    });
  }
  async get(userId: string, id: string) {
    return this.#find(userId, id);
  }
  search: Sandboxes["search"] = async (userId, page) =>
    slicePage(
      [...this.rows.values()].filter((row) => row.userId === userId),
      page,
    );
  async running(): Promise<Sandbox> {
    throw new PlatformError("SandboxFailed", "There is no engine in this test.");
  }
  async pause(userId: string, id: string) {
    this.#own(userId, id).status = "PAUSED";
  }
  async resume(userId: string, id: string) {
    this.#own(userId, id).status = "RUNNING";
  }
  async remove(userId: string, id: string) {
    this.rows.delete(this.#own(userId, id).id);
  }
  async connect(): Promise<Duplex> {
    throw new PlatformError("SandboxFailed", "There is no engine in this test.");
  }
  acquire = () => () => {};
  readonly kept: SnapshotRow[] = [];
  readonly snapshots: Snapshots = {
    create: async (userId, sandboxId) => {
      const { spec } = this.#own(userId, sandboxId);
      const row = {
        id: `snap-${this.kept.length + 1}`,
        userId,
        sandboxId,
        spec: spec ?? this.specs()[0],
        createdAt: 1_767_225_600_000,
      };
      this.kept.unshift(row);
      return row;
    },
    get: async (userId, id) => this.kept.find((row) => row.id === id && row.userId === userId),
    search: async (userId, page) =>
      slicePage(
        this.kept.filter((row) => row.userId === userId),
        page,
      ),
    open: async () => {
      throw new PlatformError("SandboxFailed", "There is no engine in this test.");
    },
    remove: async (userId, id) => {
      const index = this.kept.findIndex((row) => row.id === id && row.userId === userId);
      if (index < 0) throw new PlatformError("SnapshotNotFound", `There is no snapshot ${id}.`);
      this.kept.splice(index, 1);
    },
  };
  onChange = () => () => {};
  #find(userId: string, id: string): SandboxRow | undefined {
    const row = this.rows.get(id);
    return row?.userId === userId ? row : undefined;
  }
  #own(userId: string, id: string): SandboxRow {
    const row = this.#find(userId, id);
    if (!row) throw new PlatformError("SandboxNotFound", `The sandbox ${id} does not exist.`);
    return row;
  }
}
