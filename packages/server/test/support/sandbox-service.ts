import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { SandboxDriver } from "@sandpiper/sandbox/driver";
import { OciDriver } from "@sandpiper/sandbox/drivers/oci/oci-driver";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { SandboxServiceOptions } from "@sandpiper/sandbox/service/options";
import { SandboxService } from "@sandpiper/sandbox/service/service";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import { testSpec } from "@sandpiper/sandbox/test/support/oci";
import { openSqliteStore } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { openVault } from "../../src/store/vault.ts";

/** Services over the real driver and store. The reaper runs only by `reaper.tick`. */
export class ServiceBench {
  /** The clock of the services, ms. */
  time = Date.now();
  /** How far their clock has been set forward, ms. */
  jump = 0;
  readonly dir = mkdtempSync("/tmp/sandpiper-test-");
  store!: Store;
  driver!: OciDriver;
  service!: SandboxService;

  async open(): Promise<this> {
    this.store = await openSqliteStore({
      dir: this.dir,
      vault: await openVault(join(this.dir, "vault.key"), { create: true }),
    });
    return this;
  }

  /** A service with nothing in memory, as in a new process. The previous one must be closed. */
  async serve(
    options: Partial<SandboxServiceOptions> = {},
    wrap = (one: OciDriver): SandboxDriver => one,
  ): Promise<SandboxService> {
    this.driver = new OciDriver({ dir: join(this.dir, "sandboxes") });
    const logger = { info() {}, warn() {}, error() {} };
    const common = {
      store: this.store,
      specs: [testSpec],
      logger,
      now: () => this.time + this.jump,
      steady: () => this.time,
    };
    this.service = new SandboxService({ driver: wrap(this.driver), ...common, ...options });
    await this.service.open();
    return this.service;
  }

  /** Lets time go by, and the reaper run. */
  async pass(ms: number): Promise<void> {
    this.time += ms;
    await this.service.reaper.tick();
  }

  /** State of a sandbox as the engine sees it. */
  async state(id: string): Promise<string | undefined> {
    return (await this.driver.list()).find((one) => one.id === id)?.state;
  }

  async end(): Promise<void> {
    await this.service.close();
    const last = new OciDriver({ dir: join(this.dir, "sandboxes") });
    await last.open();
    for (const { id } of await last.list()) await last.remove(id);
    for (const id of await last.snapshots()) await last.removeSnapshot(id);
    await last.close();
    await this.store.close();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** A driver or a store with some methods replaced. */
export function altered<T extends object>(one: T, change: Partial<T>): T {
  return new Proxy(one, {
    get(target, name) {
      const value = (change as Record<PropertyKey, unknown>)[name] ?? Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** The output of a shell command in the sandbox. */
export async function sh(sandbox: Sandbox, command: string): Promise<string> {
  return (await runToEnd(sandbox, { argv: ["sh", "-c", command] }, { timeoutMs: 150_000 })).stdout.toString();
}
