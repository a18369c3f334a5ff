import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chownSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import pg from "pg";

const installed = "/usr/lib/postgresql";
const oldest = 15;

/**
 * Settings of a test's server. A killed server needs no sync, because the kernel keeps written
 * data. `startPostgres` accepts other settings.
 */
const fastSettings = { fsync: "off", full_page_writes: "off" };

/** A PostgreSQL server of a test, in a folder of its own. */
export interface PostgresServer {
  /** The data folder of the server. */
  readonly folder: string;
  readonly port: number;
  /** Password of the user `sandpiper`, who owns everything. */
  readonly password: string;
  /** Returns the address of a database, with the password. */
  url(database?: string): string;
  /** Makes an empty database, or a copy of one without connections, and returns its address. */
  createDatabase(template?: string): Promise<string>;
  /** Removes a database with its connections. */
  dropDatabase(url: string): Promise<void>;
  /** Runs statements as the owner and returns the rows of the last one. */
  query<Row extends pg.QueryResultRow>(sql: string, values?: unknown[], database?: string): Promise<Row[]>;
  /** Kills all processes of the server at once. */
  kill(): Promise<void>;
  /** Starts the server again in the same folder, on the same port. */
  start(): Promise<void>;
  /** Ends the server at once and removes its folder. */
  remove(): Promise<void>;
}

/** Finds the newest installed PostgreSQL programs. Throws an error that says what to install. */
export function findPostgres(): string {
  const versions = listFolder(installed)
    .map(Number)
    .filter((version) => version >= oldest)
    .sort((one, other) => other - one);
  if (versions[0] === undefined)
    throw new Error(
      `PostgreSQL ${oldest} or newer is missing below ${installed}: run sh scripts/setup.sh tests`,
    );
  return join(installed, String(versions[0]), "bin");
}

/**
 * Starts a server on loopback, as an unprivileged user when the test runs as root. The server ends
 * with this process, even when somebody kills this process.
 */
export async function startPostgres(
  settings: Readonly<Record<string, string>> = fastSettings,
  parent = "/tmp",
): Promise<PostgresServer> {
  const programs = findPostgres();
  const folder = mkdtempSync(join(parent, "sandpiper-postgres-"));
  const user = process.getuid?.() === 0 ? unprivilegedUser() : undefined;
  if (user) chownSync(folder, user.uid, user.gid);
  const password = randomBytes(12).toString("hex");
  const passwordFile = join(folder, "password");
  writeFileSync(passwordFile, password, { mode: 0o644 });
  const data = join(folder, "data");
  // The server has the same locale on every machine; its collation must not matter to the store.
  const environment = { PATH: process.env.PATH, LC_ALL: "C.UTF-8", TZ: "UTC" };
  execFileSync(
    join(programs, "initdb"),
    [
      ...["--pgdata", data, "--username", "sandpiper", "--pwfile", passwordFile, "--no-sync"],
      ...["--auth-local", "trust", "--auth-host", "scram-sha-256", "--encoding", "UTF8"],
    ],
    { ...user, env: environment, cwd: folder, stdio: ["ignore", "ignore", "inherit"] },
  );
  const port = await freePort();
  const all = { listen_addresses: "127.0.0.1", port: String(port), max_connections: "200", ...settings };
  const options = Object.entries({ ...all, unix_socket_directories: folder }).flatMap(([name, value]) => [
    "-c",
    `${name}=${value}`,
  ]);
  const url = (database = "postgres") => `postgres://sandpiper:${password}@127.0.0.1:${port}/${database}`;
  let watcher: ChildProcess | undefined;
  let databases = 0;

  const server: PostgresServer = {
    folder: data,
    port,
    password,
    url,
    async createDatabase(template) {
      const name = `test_${++databases}`;
      const copied = template === undefined ? "" : ` TEMPLATE ${databaseOf(template)}`;
      await server.query(`CREATE DATABASE ${name}${copied}`);
      return url(name);
    },
    async dropDatabase(address) {
      await server.query(`DROP DATABASE ${databaseOf(address)} WITH (FORCE)`);
    },
    async query<Row extends pg.QueryResultRow>(sql: string, values: unknown[] = [], database = "postgres") {
      const client = new pg.Client({ connectionString: url(database) });
      await client.connect();
      try {
        return (await client.query<Row>(sql, values)).rows;
      } finally {
        await client.end();
      }
    },
    async start() {
      // The shell ends the server when this process ends and closes its input.
      const script = '"$@" </dev/null & server=$!; read -r _; kill -QUIT $server; wait $server';
      watcher = spawn("/bin/sh", ["-c", script, "sh", join(programs, "postgres"), "-D", data, ...options], {
        ...user,
        cwd: folder,
        env: environment,
        stdio: ["pipe", "ignore", "ignore"],
      });
      watcher.unref();
      const deadline = Date.now() + 150_000;
      for (;;) {
        try {
          await server.query("SELECT 1");
          return;
        } catch (error) {
          if (Date.now() > deadline) throw error;
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      }
    },
    async kill() {
      const postmaster = Number(readFileSync(join(data, "postmaster.pid"), "utf8").split("\n", 1)[0]);
      const all = [postmaster, ...childrenOf(postmaster)];
      for (const id of all) killProcess(id);
      await endWatcher(watcher);
    },
    async remove() {
      await endWatcher(watcher);
      rmSync(folder, { recursive: true, force: true });
    },
  };
  await server.start();
  return server;
}

/** Returns the name in a database's address. */
export function databaseOf(url: string): string {
  return new URL(url).pathname.slice(1);
}

async function endWatcher(watcher: ChildProcess | undefined): Promise<void> {
  if (!watcher || watcher.exitCode !== null || watcher.signalCode !== null) return;
  watcher.ref();
  const ended = once(watcher, "exit");
  watcher.stdin?.end();
  await ended;
}

function childrenOf(id: number): number[] {
  const text = readFileSync(`/proc/${id}/task/${id}/children`, "utf8");
  return text.split(" ").filter(Boolean).map(Number);
}

function killProcess(id: number): void {
  try {
    process.kill(id, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** Finds a user to run PostgreSQL as, because PostgreSQL refuses to run as root. */
function unprivilegedUser(): { uid: number; gid: number } {
  for (const name of ["postgres", "nobody"]) {
    const line = readFileSync("/etc/passwd", "utf8")
      .split("\n")
      .find((text) => text.startsWith(`${name}:`));
    const [, , uid, gid] = line?.split(":") ?? [];
    if (uid !== undefined) return { uid: Number(uid), gid: Number(gid) };
  }
  throw new Error("There is no user postgres or nobody to run PostgreSQL as.");
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

function listFolder(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}
