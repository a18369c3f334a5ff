import { createHash } from "node:crypto";
import pg from "pg";
import { templateName, variables } from "./variables.ts";

/** Databases that this process has made, by data folder. */
const made = new Map<string, Promise<string>>();

/**
 * Returns the address of the PostgreSQL database of a data folder. The first call in any process
 * makes the database. Undefined: tests run on SQLite.
 */
export function databaseOf(dataDir: string): Promise<string> | undefined {
  const server = process.env[variables.postgres];
  if (server === undefined) return undefined;
  const address = made.get(dataDir) ?? create(server, nameOf(dataDir));
  made.set(dataDir, address);
  return address;
}

/** Returns the variables that make a process use the database of a data folder. */
export async function databaseVariables(dataDir: string): Promise<Record<string, string>> {
  const url = await databaseOf(dataDir);
  return url === undefined ? {} : { SANDPIPER_DATABASE_URL: url };
}

/** Removes the databases that this process has made. */
export async function dropDatabases(): Promise<void> {
  const server = process.env[variables.postgres];
  if (server === undefined || made.size === 0) return;
  const names = [...made.keys()].map(nameOf);
  made.clear();
  await asOwner(server, async (client) => {
    for (const name of names) await client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
  });
}

function nameOf(dataDir: string): string {
  return `test_${createHash("sha256").update(dataDir).digest("hex").slice(0, 24)}`;
}

async function create(server: string, name: string): Promise<string> {
  await asOwner(server, async (client) => {
    const { rows } = await client.query("SELECT 1 FROM pg_database WHERE datname = $1", [name]);
    if (rows.length === 0) await client.query(`CREATE DATABASE ${name} TEMPLATE ${templateName}`);
  });
  const url = new URL(server);
  url.pathname = name;
  return url.href;
}

async function asOwner(server: string, work: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client({ connectionString: server });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}
