import { PlatformError } from "@sandpiper/core/errors";
import type { Config } from "../config/config.ts";
import { loadPlaceId } from "../nodes/place-id.ts";
import type { MoveSource } from "../store/move/move-source.ts";
import { moveToPostgres, previewMove } from "../store/move/move-to-postgres.ts";
import { movedTables } from "../store/move/moved-tables.ts";
import { openMoveSource, readMoveSource } from "../store/move/open-source.ts";
import { describeAddress } from "../store/postgres/address.ts";
import { readDatabaseUrl } from "../store/postgres/read-url.ts";
import { describeKeySource, openVaultOf } from "../store/vault-key/open-vault.ts";
import { CliError, exitCodes } from "./errors.ts";
import { inertLine } from "./inert.ts";
import { loadConfig } from "./load-config.ts";
import { showProgress } from "./migrate-progress.ts";
import { findServer } from "./server-file.ts";
import { formatTable } from "./table.ts";

/**
 * `sandpiper migrate --to postgres`: copies the store of the data folder to the database that
 * SANDPIPER_DATABASE_URL or SANDPIPER_DATABASE_URL_FILE names, and compares all of it. Throws when
 * anything differs.
 */
export async function migrate({ dryRun = false }: { dryRun?: boolean }): Promise<void> {
  const config = loadConfig();
  const { database, dataDir, vaultKey } = config;
  if (!database)
    throw new CliError(new PlatformError("MoveTargetMissing").message, { exitCode: exitCodes.usage });
  const url = await readDatabaseUrl(database);
  const vault = await openVaultOf(vaultKey, { dataDir, create: false });
  if (dryRun) {
    const source = readMoveSource(dataDir, vault);
    try {
      await preview(url, source, dataDir);
    } finally {
      source.close();
    }
    return;
  }
  requireNoServer(dataDir);
  // A cluster runs the sandboxes of every server; other sandboxes are in the data folder.
  const place = config.driver === "kubernetes" ? null : await loadPlaceId(dataDir);
  const { source, close } = openMoveSource(dataDir, { vault, place });
  const progress = showProgress();
  try {
    const { wasThere, rows, logs } = await moveToPostgres({ url, source, vault, ...progress });
    progress.end();
    const count = [...rows.values()].reduce((sum, one) => sum + one, 0);
    const done = wasThere ? "has the data of this folder already" : "has a copy of the data folder";
    process.stdout.write(
      `${inertLine(describeAddress(url))} ${done}: ${count.toLocaleString("en-US")} rows in ${rows.size.toLocaleString("en-US")} tables, ` +
        `${logs.toLocaleString("en-US")} logs of conversations. All digests agree.\n${formatNextSteps(config)}`,
    );
  } finally {
    progress.end();
    close();
  }
}

function requireNoServer(dataDir: string): void {
  const server = findServer(dataDir);
  if (server)
    throw new CliError(
      `A Sandpiper process (${server.pid}) works on the data folder ${inertLine(dataDir)}: end it, for example with Ctrl-C, \`systemctl stop sandpiper\` or \`kill ${server.pid}\`, and run the command again.`,
    );
}

async function preview(url: string, source: MoveSource, dataDir: string): Promise<void> {
  const { address, state } = await previewMove(url);
  const rows = movedTables.map((table) => [table.name, source.count(table).toLocaleString("en-US")]);
  process.stdout.write(formatTable([["TABLE", "ROWS"], ...rows]));
  const server = findServer(dataDir);
  if (server)
    process.stdout.write(
      `A Sandpiper process (${server.pid}) works on the data folder: end it before the copy.\n`,
    );
  process.stdout.write(
    state === "used"
      ? `The database at ${inertLine(address)} has data: the command would only compare it.\n`
      : `The rows would be copied to the empty database at ${inertLine(address)}.\n`,
  );
}

function formatNextSteps({ vaultKey, dataDir, database }: Config): string {
  const variable = database?.from === "file" ? "SANDPIPER_DATABASE_URL_FILE" : "SANDPIPER_DATABASE_URL";
  return `
Next:
  1. Start the server with ${variable}, with this data folder and with the same
     vault key: ${inertLine(describeKeySource(vaultKey, dataDir))}.
  2. Keep the data folder: sandboxes, snapshots, images and files stay in it.
  3. Its folder store is no longer used and no longer changes: remove it when the server works.
     A server without ${variable} would go on with that old state.
`;
}
