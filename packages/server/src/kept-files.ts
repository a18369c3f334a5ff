import { join } from "node:path";
import { BlobCollector } from "@sandpiper/core/blobs/collector";
import { openBlobStore } from "@sandpiper/core/blobs/open";
import type { Logger } from "@sandpiper/core/log/logger";
import type { SandboxDriver } from "@sandpiper/sandbox/driver";
import { KeptFiles } from "@sandpiper/sandbox/service/kept-files";
import type { Config } from "./config/config.ts";
import type { Store } from "./store/store.ts";

/** How long a blob stays after no sandbox and no snapshot needs it, ms. */
const graceMs = 24 * 3_600_000;
const collectIntervalMs = 3_600_000;

interface Parts {
  driver: SandboxDriver;
  store: Store;
  logger: Logger;
  /** List of functions that close things when the server ends. */
  opened: (() => Promise<unknown>)[];
}

/**
 * Creates the copies of files in the shared blobs; undefined when the configuration names no blobs.
 */
export async function openKeptFiles(
  { blobs: place, dataDir, sandboxQuotas }: Config,
  { driver, store, logger, opened }: Parts,
): Promise<KeptFiles | undefined> {
  if (!place) return undefined;
  const blobs = await openBlobStore(place);
  const references = store.blobs;
  const collector = new BlobCollector({ blobs, references, graceMs, logger });
  collector.start(collectIntervalMs);
  opened.push(async () => {
    await collector.close();
    blobs.close();
  });
  return new KeptFiles({
    ...{ driver, blobs, references, logger },
    folder: join(dataDir, "restored"),
    limits: { userBytes: sandboxQuotas.userDiskBytes },
  });
}
