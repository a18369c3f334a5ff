import { closeSync } from "node:fs";
import { Socket } from "node:net";
import { call, native, systemError } from "./libc.ts";
import { openNullDevice } from "./null-device.ts";
import { setOomScore } from "./oom-score.ts";

/**
 * posix_spawn takes a time that does not depend on this process's memory: Node's own spawn copies
 * the page tables (8 ms at 265 MB).
 */
const posixSpawn = native(
  "int posix_spawnp(_Out_ int *pid, const char *path, const void *actions, const void *attributes, const char **argv, const char **envp)",
);
const actionsInit = native("int posix_spawn_file_actions_init(void *actions)");
const actionsDestroy = native("int posix_spawn_file_actions_destroy(void *actions)");
const addDup2 = native("int posix_spawn_file_actions_adddup2(void *actions, int fd, int as)");
const attributesInit = native("int posix_spawnattr_init(void *attributes)");
const attributesDestroy = native("int posix_spawnattr_destroy(void *attributes)");
const setFlags = native("int posix_spawnattr_setflags(void *attributes, short flags)");
const setMask = native("int posix_spawnattr_setsigmask(void *attributes, const void *set)");
const setDefault = native("int posix_spawnattr_setsigdefault(void *attributes, const void *set)");
const emptySet = native("int sigemptyset(void *set)");
const pipe2 = native("int pipe2(_Out_ int *fds, int flags)");
const socketpair = native("int socketpair(int domain, int type, int protocol, _Out_ int *fds)");
const waitpid = native("int waitpid(int pid, _Out_ int *status, int options)");

const SETSIGDEF = 0x04;
const SETSIGMASK = 0x08;
const SETSID = 0x80;
const O_CLOEXEC = 0o2000000;
const AF_UNIX = 1;
const SOCK_STREAM = 1;
const WNOHANG = 1;
const EAGAIN = 11;
/** Larger than each of glibc's opaque structures (80, 336 and 128 bytes). */
const structBytes = 512;

export interface SpawnRequest {
  /** The first word is searched in PATH. */
  argv: string[];
  /** Default: PATH only, because the server's environment holds secrets. */
  env?: Record<string, string>;
  /** Out-of-memory score of the program and its descendants; see `setOomScore`. */
  oomScore?: number;
}

export interface Spawned {
  pid: number;
  /**
   * Exit code, or 128 + signal. Resolves when the program and all holders of its lifeline have
   * ended.
   */
  exit: Promise<number>;
  /** Lets this process end before the program. */
  unref(): void;
}

/**
 * Where a descriptor of a spawned program leads: nowhere, to a pipe that it reads (`in`) or writes
 * (`out`), or to a socket (`both`).
 */
export type Descriptor = "null" | "in" | "out" | "both";

/**
 * Starts a program in its own session with default signals and these descriptors from 0 on; `pipes`
 * are the other ends, null for `null`. None leads to a file: processes of a sandbox inherit them,
 * and its root could write to the file without a limit. Throws ENOENT, EACCES, ….
 */
export function spawnPiped(
  request: SpawnRequest & { descriptors: Descriptor[] },
): Spawned & { pipes: (Socket | null)[] } {
  const { descriptors } = request;
  const ends: (Ends | null)[] = [];
  try {
    for (const kind of descriptors) ends.push(kind === "null" ? null : makeEnds(kind));
    const spawned = start(request, descriptors.length, (actions) => {
      for (const [fd, end] of ends.entries())
        addDup2(actions, end === null ? openNullDevice() : end.theirs, fd);
    });
    const pipes = ends.map((end, fd) => {
      if (end === null) return null;
      return new Socket({
        fd: end.ours,
        readable: descriptors[fd] !== "in",
        writable: descriptors[fd] !== "out",
      });
    });
    for (const end of ends) if (end) closeSync(end.theirs);
    return { ...spawned, pipes };
  } catch (error) {
    for (const end of ends) for (const fd of Object.values(end ?? {})) closeSync(fd);
    throw error;
  }
}

/**
 * The program inherits the descriptor `lifeline`; its other end closes when all holders have ended.
 */
function start(
  { argv, env, oomScore }: SpawnRequest,
  lifeline: number,
  describe: (actions: Buffer) => void,
): Spawned {
  const actions = Buffer.alloc(structBytes);
  const attributes = Buffer.alloc(structBytes);
  const signals = Buffer.alloc(structBytes);
  const { reading, writing } = makePipe();
  let pid: number;
  try {
    actionsInit(actions);
    attributesInit(attributes);
    describe(actions);
    addDup2(actions, writing, lifeline);
    setFlags(attributes, SETSIGDEF | SETSIGMASK | SETSID);
    emptySet(signals);
    setMask(attributes, signals);
    // All signals, because glibc's sets lack those that it reserves, and the program would ignore
    // them.
    signals.fill(0xff, 0, 8);
    setDefault(attributes, signals);
    const variables = Object.entries(env ?? { PATH: process.env.PATH ?? "" }).map(
      ([name, value]) => `${name}=${value}`,
    );
    const out = [0];
    const failed = posixSpawn(out, argv[0], actions, attributes, [...argv, null], [...variables, null]);
    if (failed === EAGAIN) throw processesExhausted(argv[0]!);
    if (failed !== 0) throw systemError(`spawn ${argv[0]}`, failed);
    pid = out[0]!;
    if (oomScore !== undefined) setOomScore(pid, oomScore);
  } catch (error) {
    closeSync(reading);
    throw error;
  } finally {
    closeSync(writing);
    actionsDestroy(actions);
    attributesDestroy(attributes);
  }
  return { pid, ...watchExit(pid, reading) };
}

function processesExhausted(program: string): NodeJS.ErrnoException {
  const text = `${program} cannot run, because no process ids are left on the machine (EAGAIN): end programs there, or raise kernel.pid_max`;
  return Object.assign(new Error(text), { code: "EAGAIN", errno: -EAGAIN, syscall: `spawn ${program}` });
}

interface Ends {
  ours: number;
  theirs: number;
}

function makeEnds(kind: Exclude<Descriptor, "null">): Ends {
  if (kind === "both") {
    const fds = [0, 0];
    call("socketpair", () => socketpair(AF_UNIX, SOCK_STREAM | O_CLOEXEC, 0, fds));
    return { ours: fds[0]!, theirs: fds[1]! };
  }
  const { reading, writing } = makePipe();
  return kind === "in" ? { ours: writing, theirs: reading } : { ours: reading, theirs: writing };
}

function makePipe(): { reading: number; writing: number } {
  const fds = [0, 0];
  call("pipe2", () => pipe2(fds, O_CLOEXEC));
  return { reading: fds[0]!, writing: fds[1]! };
}

function watchExit(pid: number, lifeline: number): Pick<Spawned, "exit" | "unref"> {
  const socket = new Socket({ fd: lifeline, readable: true, writable: false });
  const exit = new Promise<number>((resolve) => {
    socket.on("error", () => {});
    socket.resume();
    const reap = () => {
      const status = [0];
      const found = waitpid(pid, status, WNOHANG);
      if (found === 0) return void setTimeout(reap, 1);
      const raw = status[0]!;
      const signal = raw & 0x7f;
      resolve(found === -1 ? 127 : signal ? 128 + signal : (raw >> 8) & 0xff);
    };
    socket.once("close", reap);
  });
  return { exit, unref: () => void socket.unref() };
}
