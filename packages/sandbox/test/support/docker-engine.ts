import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Engine } from "../../src/drivers/docker/engine.ts";

/** A real Docker daemon for tests that keeps all its files below one folder. */
export interface TestEngine {
  engine: Engine;
  socketPath: string;
  /** Stops the daemon as a service manager does, and starts it again on its data. */
  restart(): Promise<void>;
  /** Removes the daemon, its containers and its files. */
  end(): Promise<void>;
  readonly daemon: ChildProcess;
}

const timeoutMs = 30_000;

/**
 * Starts a daemon and waits until it answers. With `elsewhere` it has its own host name, as in a
 * virtual machine. Throws with the daemon's log when it does not start.
 */
export async function startTestEngine({ elsewhere = false } = {}): Promise<TestEngine> {
  const dir = mkdtempSync("/tmp/sandpiper-engine-");
  mkdirSync(join(dir, "exec"));
  writeFileSync(join(dir, "daemon.json"), "{}");
  const socketPath = join(dir, "docker.sock");
  const engine = new Engine({ socketPath });
  let daemon = await startDaemon(dir, engine, elsewhere);
  return {
    engine,
    socketPath,
    get daemon() {
      return daemon;
    },
    restart: async () => {
      await endDaemon(daemon);
      daemon = await startDaemon(dir, engine, elsewhere);
    },
    end: async () => {
      if (daemon.exitCode !== null || daemon.signalCode !== null)
        daemon = await startDaemon(dir, engine, elsewhere);
      for (const { Id } of await engine.docker.listContainers({ all: true })) {
        await engine.docker.getContainer(Id).remove({ force: true, v: true });
      }
      await endDaemon(daemon);
      rmSync(dir, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

/**
 * The daemon has its own mounts and no networks, so it changes nothing of the machine's, and it
 * ends with this process.
 */
async function startDaemon(dir: string, engine: Engine, elsewhere: boolean): Promise<ChildProcess> {
  const log = openSync(join(dir, "log"), "a");
  const daemon = spawn(
    "setpriv",
    [
      ...["--pdeathsig", "TERM", "unshare", "--mount", "--propagation", "slave"],
      ...(elsewhere ? ["--uts", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh"] : []),
      "dockerd",
      ...[
        "--config-file",
        join(dir, "daemon.json"),
        "--data-root",
        join(dir, "data"),
        "--exec-root",
        join(dir, "exec"),
      ],
      ...["--pidfile", join(dir, "pid"), "--host", `unix://${join(dir, "docker.sock")}`],
      ...["--iptables=false", "--ip6tables=false", "--ip-masq=false", "--ip-forward=false", "--bridge=none"],
    ],
    {
      stdio: ["ignore", log, log],
      env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin` },
      detached: true,
    },
  );
  daemon.on("error", () => {});
  const end = Date.now() + timeoutMs;
  while (!(existsSync(join(dir, "docker.sock")) && (await answers(engine)))) {
    if (Date.now() > end || daemon.exitCode !== null || daemon.pid === undefined) {
      daemon.kill("SIGKILL");
      const words = readFileSync(join(dir, "log"), "utf8").slice(-2_000);
      rmSync(dir, { recursive: true, force: true });
      throw new Error(
        `The tests need Docker's daemon (\`apt-get install docker.io\`), and it does not start here: ${words}`,
      );
    }
    await delay(20);
  }
  return daemon;
}

async function answers(engine: Engine): Promise<boolean> {
  return engine.docker.ping().then(
    () => true,
    () => false,
  );
}

async function endDaemon(daemon: ChildProcess): Promise<void> {
  const ended = daemon.exitCode === null && daemon.signalCode === null ? once(daemon, "exit") : undefined;
  daemon.kill("SIGTERM");
  const timer = setTimeout(() => daemon.kill("SIGKILL"), timeoutMs);
  await ended;
  clearTimeout(timer);
}
