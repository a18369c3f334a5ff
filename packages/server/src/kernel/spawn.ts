import { closeSync, constants } from "node:fs";
import { Socket } from "node:net";
import { call, native, systemError } from "./libc.ts";

/**
 * Starting a program in a time that does not depend on this process's memory: Node's own spawn copies the page tables (8 ms at 265 MB).
 */
const posixSpawn = native(
  "int posix_spawnp(_Out_ int *pid, const char *path, const void *actions, const void *attributes, const char **argv, const char **envp)",
);
const actionsInit = native("int posix_spawn_file_actions_init(void *actions)");
const actionsDestroy = native("int posix_spawn_file_actions_destroy(void *actions)");
const addDup2 = native("int posix_spawn_file_actions_adddup2(void *actions, int fd, int as)");
const addOpen = native(
  "int posix_spawn_file_actions_addopen(void *actions, int fd, const char *path, int flags, unsigned int mode)",
);
const attributesInit = native("int posix_spawnattr_init(void *attributes)");
const attributesDestroy = native("int posix_spawnattr_destroy(void *attributes)");
const setFlags = native("int posix_spawnattr_setflags(void *attributes, short flags)");
const setMask = native("int posix_spawnattr_setsigmask(void *attributes, const void *set)");
const setDefault = native("int posix_spawnattr_setsigdefault(void *attributes, const void *set)");
const fillSet = native("int sigfillset(void *set)");
const emptySet = native("int sigemptyset(void *set)");
const pipe2 = native("int pipe2(_Out_ int *fds, int flags)");
const waitpid = native("int waitpid(int pid, _Out_ int *status, int options)");

const SETSIGDEF = 0x04;
const SETSIGMASK = 0x08;
const SETSID = 0x80;
const O_CLOEXEC = 0o2000000;
const WNOHANG = 1;
/** Larger than each of glibc's opaque structures (80, 336 and 128 bytes). */
const structBytes = 512;
/** Descriptor that a spawned program inherits; its other end shows when it and what inherited it have ended. */
const lifelineFd = 3;

export interface SpawnRequest {
  /** The first word is looked up in PATH. */
  argv: string[];
  env?: Record<string, string>;
  /** File that takes stdout and stderr, made anew. */
  outputFile: string;
}

export interface Spawned {
  pid: number;
  /** Exit code, or 128 + signal. Resolves when the program has ended and no process holds its descriptor 3 any more. */
  exit: Promise<number>;
}

/** Starts a program in a session of its own with default signals. Throws ENOENT, EACCES, …. */
export function spawnDetached(request: SpawnRequest): Spawned {
  const actions = Buffer.alloc(structBytes);
  const attributes = Buffer.alloc(structBytes);
  const signals = Buffer.alloc(structBytes);
  const fds = [0, 0];
  call("pipe2", () => pipe2(fds, O_CLOEXEC));
  const [end, start] = fds as [number, number];
  let pid: number;
  try {
    actionsInit(actions);
    attributesInit(attributes);
    const { O_RDONLY, O_WRONLY, O_CREAT, O_TRUNC } = constants;
    addOpen(actions, 0, "/dev/null", O_RDONLY, 0);
    addOpen(actions, 1, request.outputFile, O_WRONLY | O_CREAT | O_TRUNC, 0o600);
    addDup2(actions, 1, 2);
    addDup2(actions, start, lifelineFd);
    setFlags(attributes, SETSIGDEF | SETSIGMASK | SETSID);
    emptySet(signals);
    setMask(attributes, signals);
    fillSet(signals);
    setDefault(attributes, signals);
    const env = Object.entries(request.env ?? process.env).map(([name, value]) => `${name}=${value}`);
    const out = [0];
    const failed = posixSpawn(out, request.argv[0], actions, attributes, [...request.argv, null], [...env, null]);
    if (failed !== 0) throw systemError(`spawn ${request.argv[0]}`, failed);
    pid = out[0]!;
  } catch (error) {
    closeSync(end);
    throw error;
  } finally {
    closeSync(start);
    actionsDestroy(actions);
    attributesDestroy(attributes);
  }
  return { pid, exit: exitOf(pid, end) };
}

function exitOf(pid: number, lifeline: number): Promise<number> {
  return new Promise((resolve) => {
    const socket = new Socket({ fd: lifeline, readable: true, writable: false });
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
}
