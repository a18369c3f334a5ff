import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLogger } from "@sandpiper/core/log/log";
import { SecretMask } from "@sandpiper/core/secrets/mask";
import type { PreparedSpec } from "@sandpiper/sandbox/driver";
import { OciDriver } from "@sandpiper/sandbox/drivers/oci/oci-driver";
import { EgressProxy } from "@sandpiper/sandbox/network/proxy/egress-proxy";
import { SandboxService } from "@sandpiper/sandbox/service/service";
import { loadSpecs } from "@sandpiper/sandbox/specs/load-specs";
import { readConfig } from "@sandpiper/server/config/read-config";
import { openSqliteStore } from "@sandpiper/server/store/sqlite/open";
import { openVault } from "@sandpiper/server/store/vault";

/** User of every sandbox that a measurement makes. */
export const user = "bench";

/** A server's sandboxes as `platform.ts` composes them, on their own clock. */
export interface BenchService {
  service: SandboxService;
  driver: OciDriver;
  /** The driver's folder. */
  dir: string;
  /** The default spec. */
  spec: PreparedSpec;
  /** Pauses a sandbox, and hibernates all that are paused. */
  hibernate(ids: string[]): Promise<void>;
  /** Removes every sandbox and all files. */
  end(): Promise<void>;
}

const hibernateAfterMs = 1_000;

export async function openBenchService(): Promise<BenchService> {
  const data = mkdtempSync(join(tmpdir(), "sandpiper-bench-"));
  const config = readConfig({ SANDPIPER_DATA: data });
  // The bare runtime has its root folder below it.
  chmodSync(data, 0o711);
  const logger = createLogger("warn", new SecretMask());
  const store = await openSqliteStore({
    dir: data,
    vault: await openVault(join(data, "vault.key"), { create: true }),
  });
  const egress = await EgressProxy.open({ dir: join(data, "network"), logger, env: {} });
  const dir = join(data, "sandboxes");
  const driver = new OciDriver({ dir, runtime: process.env.SANDPIPER_RUNTIME });
  const specs = loadSpecs(config, {});
  let time = Date.now();
  const service = new SandboxService({
    ...{ driver, store, specs, egress, logger },
    idle: { pauseAfterMs: 0, hibernateAfterMs, deleteAfterMs: 0 },
    now: () => time,
  });
  await service.open();
  return {
    ...{ service, driver, dir },
    spec: specs[0] as PreparedSpec,
    async hibernate(ids) {
      await Promise.all(ids.map((id) => service.pause(user, id)));
      time += hibernateAfterMs;
      await service.reaper.tick();
    },
    async end() {
      await removeAll(service);
      // Sandboxes that a measurement started without the service.
      for (const { id } of await driver.list()) await driver.remove(id);
      await service.close();
      await egress.close();
      await store.close();
      rmSync(data, { recursive: true, force: true });
    },
  };
}

/** A new sandbox that runs. */
export async function started(service: SandboxService, snapshotId?: string): Promise<string> {
  const { id } = await service.create(user, undefined, snapshotId === undefined ? {} : { snapshotId });
  await service.running(id);
  return id;
}

/** Calls `work` for every index up to `count`, some at a time. */
export async function spread(
  count: number,
  atOnce: number,
  work: (index: number) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  const one = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: atOnce }, one));
}

async function removeAll(service: SandboxService): Promise<void> {
  for (;;) {
    const { items } = await service.search(user, { limit: 100 });
    if (items.length === 0) return;
    await Promise.all(items.map(({ id }) => service.remove(user, id)));
  }
}
