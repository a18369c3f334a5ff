import { chownSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { getuid, pid } from "node:process";
import { getInvoker } from "./invoker.ts";

/** How a command reaches the platform that uses a data folder. */
export interface RunningServer {
  url: string;
  /** A key of the default user, valid as long as the process runs. */
  key: string;
  pid: number;
  /** Start of the process in ticks since boot: tells it from a later process with the same id. */
  started: string;
  /** `sandpiper serve`, which stays; else a command that closes its platform when it ends. */
  stays: boolean;
}

const path = (dataDir: string) => join(dataDir, "server.json");

/** Writes the file, readable only by its owner; with sudo, by the user who called it. */
export function publishServer(dataDir: string, server: Pick<RunningServer, "url" | "key" | "stays">): void {
  const file = path(dataDir);
  const temporary = `${file}.${pid}`;
  rmSync(temporary, { force: true });
  const content: RunningServer = { ...server, pid, started: startOf(pid) ?? "" };
  writeFileSync(temporary, `${JSON.stringify(content)}\n`, { mode: 0o600, flag: "wx" });
  const user = getInvoker();
  if (user) chownSync(temporary, user.uid, user.gid);
  renameSync(temporary, file);
}

const renewMs = 2_000;

/**
 * Publishes a server until the returned function is called. When several servers share a folder,
 * the file shows the server that was published last; once that server has ended, another one
 * replaces it.
 */
export function keepPublished(
  dataDir: string,
  server: Pick<RunningServer, "url" | "key" | "stays">,
  intervalMs = renewMs,
): () => void {
  publishServer(dataDir, server);
  const renew = () => {
    try {
      if (!findServer(dataDir)) publishServer(dataDir, server);
    } catch {
      // When the write fails, for example on a full disk, the next round tries again.
    }
  };
  const timer = setInterval(renew, intervalMs).unref();
  return () => {
    clearInterval(timer);
    withdrawServer(dataDir);
  };
}

/** Removes the file of this process. */
export function withdrawServer(dataDir: string): void {
  if (readServer(path(dataDir))?.pid === pid) rmSync(path(dataDir), { force: true });
}

/**
 * The platform that uses the data folder now. Undefined when there is none, when its process has
 * ended without removing the file, and when the file is not this user's own.
 */
export function findServer(dataDir: string): RunningServer | undefined {
  const server = readServer(path(dataDir));
  return server && startOf(server.pid) === server.started ? server : undefined;
}

function readServer(file: string): RunningServer | undefined {
  try {
    const { uid, mode } = statSync(file);
    if ((uid !== getuid?.() && uid !== 0 && getuid?.() !== 0) || (mode & 0o077) !== 0) return undefined;
    return JSON.parse(readFileSync(file, "utf8")) as RunningServer;
  } catch {
    return undefined;
  }
}

function startOf(process: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${process}/stat`, "utf8");
    // The name, in parentheses, may contain spaces.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}
