import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { SandboxFile } from "../../../driver.ts";
import { hasResourceCapability } from "../../../kernel/capabilities.ts";
import type { Owner } from "../../../kernel/files-in-root.ts";
import type { BindMount, HostResources } from "../../common/host.ts";
import { placeFile } from "../../common/place-file.ts";
import { findLastMessage, runProgram } from "../../common/run-program.ts";
import type { FolderLock } from "../../common/sharing/folder-lock.ts";
import type { FolderMembers } from "../../common/sharing/folder-members.ts";
import { isRootless } from "../../common/uid-range.ts";
import type { ProcessGroups } from "../cgroup/process-groups.ts";
import { type IdRange, IdRanges } from "../ids/id-ranges.ts";
import { killStarts } from "../launch/kill-starts.ts";
import { Launcher } from "../launch/launcher.ts";
import type { InjectedPath, LowerLayer } from "../launch/launcher-messages.ts";
import type { SeccompFilter } from "../launch/seccomp-filter.ts";
import type { Turn } from "../launch/turns.ts";
import type { Layers } from "../storage/layers.ts";
import type { StoredSandbox } from "../storage/records.ts";
import { getCapabilities, makeRuntimeConfig } from "./config.ts";
import type { ExecPlace } from "./exec-files.ts";
import { ExecRuntimes } from "./exec-runtimes.ts";
import type { ProcessLimits } from "./rlimits.ts";
import type { Runtime } from "./runtime.ts";

const commandTimeoutMs = 20_000;

export interface OciContainersOptions {
  runtime: Runtime;
  host: HostResources;
  groups: ProcessGroups;
  limits: ProcessLimits;
  /** On a tmpfs; see `openRuntimeDir`. */
  runtimeDir: string;
  layers: Layers;
  /** Path of an unpacked image. Throws SandboxSpecUnusable. */
  imageLayer: (reference: string) => string;
  /** Folder of all layers and images. */
  files: string;
  /** The processes that share the folders, and their lock. */
  members: FolderMembers;
  lock: FolderLock;
  logger: Logger | undefined;
}

/** Name of the file that is in the folder of a start until the start is done. */
const configName = "config.json";
/** Name of the file with the member that starts or has started the sandbox. */
const starterName = "starter";

/** Where one start happens. */
interface Place {
  box: string;
  logFile: string;
  ids: IdRange;
  turn: Turn;
}

export interface ContainerStart {
  record: StoredSandbox;
  seccomp: SeccompFilter;
  /** In addition to those of the host. */
  binds: BindMount[];
  /** True when the sandbox has never run. */
  isNew: boolean;
  /** Files in addition to those of the root. */
  files: SandboxFile[];
}

/**
 * The runtime's containers: the processes of sandboxes and their short-lived files. These are in
 * the runtime folder (`state/` of the runtime and `boxes/<id>/`), so that they end with the
 * machine.
 */
export class OciContainers {
  readonly stateDir: string;
  /** The runtimes of running commands. */
  readonly runtimes: ExecRuntimes;
  readonly #options: OciContainersOptions;
  readonly #boxes: string;
  readonly #launcher: Launcher;
  readonly #ids: IdRanges;

  constructor(options: OciContainersOptions) {
    this.#options = options;
    this.stateDir = join(options.runtimeDir, "state");
    this.#boxes = join(options.runtimeDir, "boxes");
    mkdirSync(this.stateDir, { recursive: true });
    mkdirSync(this.#boxes, { recursive: true });
    chmodSync(this.stateDir, 0o700);
    chmodSync(this.#boxes, 0o711);
    this.runtimes = new ExecRuntimes(join(options.runtimeDir, "runtimes"), options.members);
    const { files, logger, layers, lock } = options;
    this.#launcher = new Launcher({
      files,
      layers: layers.folder,
      mounts: join(options.runtimeDir, "mounts"),
      rootless: isRootless(),
    });
    this.#ids = new IdRanges({
      installation: options.groups.name,
      boxes: this.#boxes,
      ranges: join(options.runtimeDir, "ranges"),
      lock,
      files,
      // runc sets limits from outside, which only the owner of the namespace may do otherwise.
      ownOwners: !isRootless() && (options.runtime.kind === "crun" || hasResourceCapability()),
      logger,
    });
  }

  /** Returns the host id of id 0 in a running sandbox, and a text that each start changes. */
  ids(id: string): { base: number; start: string } {
    return this.#ids.get(id);
  }

  /** Runtime and its general options, before a command. */
  get argv(): string[] {
    return this.#argv();
  }

  /** Where the commands of a sandbox have their short-lived files. */
  execPlace(id: string): ExecPlace {
    return { folder: join(this.#boxes, id, "exec"), note: (pid) => this.runtimes.note(id, pid) };
  }

  /** Ids of all sandboxes whose start, finished or not, may have left files. */
  traces(): string[] {
    return [...new Set([...readdirSync(this.stateDir), ...readdirSync(this.#boxes)])];
  }

  /**
   * Starts the first process in a turn of the sandbox, and resolves once it runs its own program.
   * It survives this process. Throws SandboxFailed.
   */
  async start(id: string, start: ContainerStart, turn: Turn): Promise<void> {
    const { runtime, groups } = this.#options;
    const { spec } = start.record;
    turn.require();
    groups.expectStart(id, spec.limits);
    const box = this.#makeBox(id);
    const logFile = join(box, "runtime.log");
    const ids = this.#ids.take(id);
    let code: number;
    try {
      code = await this.#launch(id, start, { box, logFile, ids, turn });
    } finally {
      ids.close();
    }
    turn.require();
    if (code !== 0) {
      const reason = code === 124 ? `no answer within ${commandTimeoutMs / 1000} s` : readLogEnd(logFile);
      throw runtimeError("start", runtime, { code, reason });
    }
    const group = groups.get(id);
    const first = group.member();
    if (first !== undefined) group.admit(first, spec.limits);
    // The runtime keeps a copy.
    rmSync(join(box, configName));
  }

  /** True while a sandbox starts, and after a start that its process could not end. */
  isStarting(id: string): boolean {
    return existsSync(join(this.#boxes, id, configName));
  }

  /** Ids of the sandboxes that a process has begun to start and has not, because it has ended. */
  interruptedStarts(): string[] {
    return readdirSync(this.#boxes).filter((id) => {
      if (!this.isStarting(id)) return false;
      try {
        return !this.#options.members.isLiving(readFileSync(join(this.#boxes, id, starterName), "latin1"));
      } catch {
        // A server of an older version has no such file.
        return true;
      }
    });
  }

  /**
   * Kills the processes of a sandbox, if any, and removes its container, also one that an earlier
   * turn was starting. Throws SandboxFailed.
   */
  async end(id: string, turn: Turn): Promise<void> {
    const { runtime, groups } = this.#options;
    const check = () => turn.require();
    // The runtime would go on, and make a container beside the next one.
    if (turn.isTaken || this.isStarting(id)) await killStarts(this.stateDir, id);
    const group = groups.get(id);
    if (!(await group.kill(check))) {
      const argv = [...this.argv, "delete", "--force", id];
      const result = await runProgram(argv, { timeoutMs: commandTimeoutMs });
      if (!(await group.kill(check))) throw runtimeError("end", runtime, result);
    }
    await this.runtimes.endOf(id);
    // A runtime that was killed may have put a process into the group.
    await group.kill(check);
    check();
    group.remove();
    this.#ids.release(id);
    // Retries, because a runtime that is ending with its command may still write there.
    for (const folder of [join(this.stateDir, id), join(this.#boxes, id)])
      await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 5 });
    check();
  }

  /** Whether the processes have a system call filter, and the compiled one (base64). */
  inspectFilter(id: string): { compiled: string | undefined; filtered: boolean } {
    const filtered = this.#options.groups.get(id).members().some(isFiltered);
    try {
      return { filtered, compiled: readFileSync(join(this.stateDir, id, "seccomp.bpf")).toString("base64") };
    } catch {
      return { filtered, compiled: undefined };
    }
  }

  async close(): Promise<void> {
    await this.#launcher.close();
  }

  /** Called when no sandbox is left. */
  removeFolder(): void {
    rmSync(this.#options.runtimeDir, { recursive: true, force: true });
  }

  /** The runtime logs to a file that the sandbox does not inherit. */
  #argv(logFile?: string): string[] {
    const { runtime, groups } = this.#options;
    const log = logFile === undefined ? [] : ["--log", logFile];
    return [runtime.path, ...log, ...groups.runtimeArgs(runtime.kind), "--root", this.stateDir];
  }

  /** Runs the runtime; returns its exit code. */
  async #launch(id: string, start: ContainerStart, place: Place): Promise<number> {
    const { host, limits, runtime, layers, groups } = this.#options;
    const { record } = start;
    const { spec } = record;
    const { box, logFile, ids, turn } = place;
    const root = { uid: ids.base, gid: ids.base };
    const target = join(box, "root");
    const config = makeRuntimeConfig({
      id,
      spec,
      rootfs: target,
      idBase: ids.base,
      userNamespace: ids.processes === undefined ? undefined : `/proc/${process.pid}/fd/${ids.processes}`,
      group: groups.linuxSection(id, spec.limits),
      init: host.init,
      binds: [
        ...(spec.root.kind === "host" ? host.binds : []),
        ...host.sysBinds,
        ...start.binds,
        ...writeNameFiles(box, id),
      ],
      seccomp: start.seccomp,
      limits,
    });
    writeFileSync(join(box, configName), JSON.stringify(config), { mode: 0o600 });
    const keyring = runtime.kind === "runc" ? ["--no-new-keyring"] : [];
    const options = ["--detach", ...keyring, ...groups.runArgs(id), "--bundle", box];
    return await this.#launcher.launch({
      target,
      ownersNamespace: ids.files,
      lower: this.#lower(record, ids),
      upper: layers.path(record.upper),
      work: layers.workPath(record.upper),
      setUserId: getCapabilities(spec).length > 0,
      injected: injectedPaths(start, root),
      root,
      argv: [...this.#argv(logFile), "run", ...options, id],
      oomScore: limits.oomScore,
      timeoutMs: commandTimeoutMs,
      turn: turn.file,
    });
  }

  #makeBox(id: string): string {
    const box = join(this.#boxes, id);
    const folders = { [box]: 0o711, [join(box, "root")]: 0o755, [join(box, "exec")]: 0o700 };
    for (const [folder, mode] of Object.entries(folders)) {
      mkdirSync(folder);
      chmodSync(folder, mode);
    }
    writeFileSync(join(box, starterName), this.#options.members.name, { mode: 0o600 });
    return box;
  }

  #lower(record: StoredSandbox, ids: IdRange): LowerLayer[] {
    const { layers, imageLayer } = this.#options;
    const { root } = record.spec;
    const own = record.layers.map((name) => ({ path: layers.path(name) }));
    if (root.kind === "image") return [...own, { path: imageLayer(root.reference) }];
    if (root.kind === "host") return [...own, { path: layers.path(record.hostLayer!) }];
    if (ids.processes === undefined) throw new PlatformError("RootFolderNeedsRoot");
    return [...own, { folder: root.path, userNamespace: ids.processes }];
  }
}

/**
 * Writes /etc/hosts and /etc/hostname. They are mounted, not written into the root, because the
 * name changes when another sandbox uses the same files.
 */
function writeNameFiles(box: string, id: string): BindMount[] {
  const contents = { hosts: `127.0.0.1\tlocalhost\n::1\tlocalhost\n127.0.1.1\t${id}\n`, hostname: `${id}\n` };
  return Object.entries(contents).map(([name, content]) => {
    const source = join(box, name);
    writeFileSync(source, content);
    chmodSync(source, 0o644);
    return { source, destination: `/etc/${name}` };
  });
}

/**
 * Paths that are put into a root before a start. A sandbox that has run holds its user's work, so
 * it also starts when a path cannot be put there.
 */
function injectedPaths({ record: { spec }, isNew, files }: ContainerStart, root: Owner): InjectedPath[] {
  const user = { uid: root.uid + spec.user.uid, gid: root.gid + spec.user.gid };
  const injected = files.flatMap((file) => {
    const { path, folders } = placeFile(file, spec.user);
    const parents = folders.map((folder) => ({ path: folder, owner: user, mode: 0o755, optional: true }));
    return [...parents, { path, content: file.content, optional: !isNew || parents.length > 0 }];
  });
  if (!isNew || spec.root.kind === "host") return injected;
  return [
    { path: "/etc/resolv.conf", content: "", optional: true },
    { path: "/tmp", owner: root, mode: 0o1777 },
    ...[spec.user.home, spec.workingDir]
      .filter((path) => path !== "/")
      .map((path) => ({ path, owner: user, mode: 0o755 })),
    ...injected,
  ];
}

/** The last message of a runtime's log; empty when it has none. */
function readLogEnd(file: string): string {
  try {
    return findLastMessage(readFileSync(file, "utf8").slice(-8_192));
  } catch {
    return "";
  }
}

function isFiltered(pid: number): boolean {
  try {
    return /^Seccomp:\s+2$/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

function runtimeError(action: string, { kind }: Runtime, result: { code: number; reason: string }) {
  const reason = result.reason || `it ended with code ${result.code}`;
  return new PlatformError("RuntimeFailed", { runtime: kind, action, reason });
}
