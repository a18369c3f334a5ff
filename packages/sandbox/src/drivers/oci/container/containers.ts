import { chmodSync, closeSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import type { SandboxFile } from "../../../driver.ts";
import { openUserNamespace } from "../../../kernel/id-mapped.ts";
import type { Host } from "../../common/host.ts";
import type { ProcessGroups } from "../cgroup/process-group.ts";
import { Launcher } from "../launch/launcher.ts";
import type { Addition, LowerLayer } from "../launch/launcher-messages.ts";
import type { SeccompFilter } from "../launch/seccomp-filter.ts";
import type { Layers } from "../storage/layers.ts";
import type { SandboxRecord } from "../storage/records.ts";
import { idRangeSize, runtimeConfig } from "./config.ts";
import type { ProcessRules } from "./rlimits.ts";
import { type Runtime, type RuntimeResult, reasonOf, runCommand } from "./runtime.ts";

const commandTimeoutMs = 20_000;

export interface ContainersOptions {
  runtime: Runtime;
  host: Host;
  groups: ProcessGroups;
  rules: ProcessRules;
  /** On a tmpfs; see `volatileFolder`. */
  volatile: string;
  layers: Layers;
  /** Path of an unpacked image. Throws SandboxSpecUnusable. */
  imageLayer: (reference: string) => string;
  idBase: number;
}

export interface ContainerStart {
  record: SandboxRecord;
  seccomp: SeccompFilter;
  /** Read-only bind mounts beside those of the host. */
  binds: { source: string; destination: string }[];
  /** It has never run. */
  isNew: boolean;
  /** What it has beside the files of its root. */
  files: SandboxFile[];
}

/**
 * The runtime's containers: the processes of sandboxes, and what belongs to them while they run. That lies in the volatile folder
 * (`state/`, the runtime's, and `boxes/<id>/`), so that it ends with the machine like the processes themselves.
 */
export class Containers {
  readonly stateDir: string;
  readonly #options: ContainersOptions;
  readonly #boxes: string;
  readonly #launcher: Launcher;
  #userNamespace: Promise<number> | undefined;

  constructor(options: ContainersOptions) {
    this.#options = options;
    this.stateDir = join(options.volatile, "state");
    this.#boxes = join(options.volatile, "boxes");
    for (const [folder, mode] of [
      [this.stateDir, 0o700],
      [this.#boxes, 0o711],
    ] as const) {
      mkdirSync(folder, { recursive: true });
      chmodSync(folder, mode);
    }
    const folders = join(options.volatile, "folders");
    this.#launcher = new Launcher({ layers: options.layers.folder, folders, rootless: options.idBase === 1 });
  }

  /** argv words before a command of the runtime. */
  get words(): string[] {
    const { runtime, groups } = this.#options;
    return [runtime.path, ...groups.runtimeWords(runtime.kind), "--root", this.stateDir];
  }

  /** Folder for the short-lived files of commands, private to the server. */
  execFolder(id: string): string {
    return join(this.#boxes, id, "exec");
  }

  /** Names of everything that a start, finished or not, may have left. */
  traces(): string[] {
    return [...new Set([...readdirSync(this.stateDir), ...readdirSync(this.#boxes)])];
  }

  /** Starts the first process and resolves once it runs its own program; processes outlive this one. Throws SandboxFailed. */
  async start(id: string, start: ContainerStart): Promise<void> {
    const { host, rules, runtime, layers, idBase, groups } = this.#options;
    const { record } = start;
    groups.expectStart();
    const lower = await this.#lower(record);
    const box = this.#makeBox(id);
    const target = join(box, "root");
    const config = runtimeConfig({
      id,
      spec: record.spec,
      rootfs: target,
      idBase,
      group: groups.section(id, record.spec.limits),
      init: host.init,
      binds: [...(record.spec.root.kind === "host" ? host.binds : []), ...start.binds, ...nameFiles(box, id)],
      seccomp: start.seccomp,
      rules,
    });
    const configFile = join(box, "config.json");
    writeFileSync(configFile, JSON.stringify(config), { mode: 0o600 });
    const keyring = runtime.kind === "runc" ? ["--no-new-keyring"] : [];
    const outputFile = join(box, "runtime.log");
    const code = await this.#launcher.launch({
      target,
      lower,
      upper: layers.path(record.upper),
      work: layers.workPath(record.upper),
      additions: additions(start, idBase),
      root: { uid: idBase, gid: idBase },
      argv: [...this.words, "run", "--detach", ...keyring, ...groups.runWords(id), "--bundle", box, id],
      outputFile,
      timeoutMs: commandTimeoutMs,
    });
    if (code === 124)
      throw failure("start", runtime, {
        code,
        output: "",
        reason: `no answer within ${commandTimeoutMs / 1000} s`,
      });
    if (code !== 0) {
      const reason = reasonOf(readFileSync(outputFile, "utf8").slice(-8_192));
      throw failure("start", runtime, { code, output: "", reason });
    }
    const group = groups.of(id);
    const first = group.member();
    if (first !== undefined) group.admit(first, record.spec.limits);
    // The runtime keeps a copy.
    rmSync(configFile);
  }

  /** Kills the processes of a sandbox, if there are any, and forgets its container. Throws SandboxFailed. */
  async end(id: string): Promise<void> {
    const { runtime, groups } = this.#options;
    const group = groups.of(id);
    if (!(await group.kill())) {
      const result = await runCommand([...this.words, "delete", "--force", id], {
        timeoutMs: commandTimeoutMs,
      });
      if (!(await group.kill())) throw failure("end", runtime, result);
    }
    // Without processes a container is nothing but these.
    group.remove();
    // A runtime that still ends with its command may be writing there.
    for (const folder of [join(this.stateDir, id), join(this.#boxes, id)])
      await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 5 });
  }

  /** Whether the first process is under a system call filter, and the filter that the runtime keeps, base64. */
  filterOf(id: string): { compiled: string | undefined; filtered: boolean } {
    const filtered = this.#options.groups.of(id).members().some(isFiltered);
    try {
      return { filtered, compiled: readFileSync(join(this.stateDir, id, "seccomp.bpf")).toString("base64") };
    } catch {
      return { filtered, compiled: undefined };
    }
  }

  async close(): Promise<void> {
    await this.#launcher.close();
    const userNamespace = await this.#userNamespace;
    if (userNamespace !== undefined) closeSync(userNamespace);
    this.#userNamespace = undefined;
  }

  /** To be called when there is no sandbox left. */
  removeFolder(): void {
    rmSync(this.#options.volatile, { recursive: true, force: true });
  }

  #makeBox(id: string): string {
    const box = join(this.#boxes, id);
    for (const [folder, mode] of [
      [box, 0o711],
      [join(box, "root"), 0o755],
      [join(box, "exec"), 0o700],
    ] as const) {
      mkdirSync(folder);
      chmodSync(folder, mode);
    }
    return box;
  }

  async #lower(record: SandboxRecord): Promise<LowerLayer[]> {
    const { layers, imageLayer, idBase } = this.#options;
    const { root } = record.spec;
    const own = record.layers.map((name) => ({ path: layers.path(name) }));
    if (root.kind === "image") return [...own, { path: imageLayer(root.reference) }];
    if (root.kind === "host") return [...own, { path: layers.path(record.hostLayer!) }];
    this.#userNamespace ??= openUserNamespace(idBase, idRangeSize).catch((error: unknown) => {
      this.#userNamespace = undefined;
      throw error;
    });
    return [...own, { folder: root.path, userNamespace: await this.#userNamespace }];
  }
}

/** The files that tell a sandbox its own name: mounted rather than written, because it changes when files are used again by another one. */
function nameFiles(box: string, id: string): { source: string; destination: string }[] {
  const contents = { hosts: `127.0.0.1\tlocalhost\n::1\tlocalhost\n127.0.1.1\t${id}\n`, hostname: `${id}\n` };
  return Object.entries(contents).map(([name, content]) => {
    const source = join(box, name);
    writeFileSync(source, content);
    chmodSync(source, 0o644);
    return { source, destination: `/etc/${name}` };
  });
}

/** What is put into a root before a start. One that has run holds its user's work: it starts without what cannot be put there. */
function additions({ record: { spec }, isNew, files }: ContainerStart, idBase: number): Addition[] {
  if (!isNew) return files.map((file) => ({ ...file, optional: true }));
  const root = { uid: idBase, gid: idBase };
  const user = { uid: idBase + spec.user.uid, gid: idBase + spec.user.gid };
  const whereMissing: Addition[] = [
    { path: "/etc/resolv.conf", content: "", optional: true },
    { path: "/tmp", owner: root, mode: 0o1777 },
    ...[spec.user.home, spec.workingDir]
      .filter((path) => path !== "/")
      .map((path) => ({ path, owner: user, mode: 0o755 })),
  ];
  return [
    ...(spec.root.kind === "host" ? [] : whereMissing),
    ...files.map((file) => ({ ...file, optional: false })),
  ];
}

function isFiltered(pid: number): boolean {
  try {
    return /^Seccomp:\s+2$/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

function failure(what: string, runtime: Runtime, result: RuntimeResult): PlatformError {
  const reason = result.reason || `it ended with code ${result.code}`;
  return new PlatformError("SandboxFailed", `${runtime.kind} could not ${what} the sandbox: ${reason}.`);
}
