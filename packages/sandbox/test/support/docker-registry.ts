import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

/** A real registry for tests on a free loopback port. */
export interface TestRegistry {
  /** `127.0.0.1:port` */
  address: string;
  end(): Promise<void>;
}

/** `htpasswd` holds lines of user and bcrypt hash; without it everyone may read and write. */
export async function startTestRegistry(htpasswd?: string): Promise<TestRegistry> {
  const dir = mkdtempSync("/tmp/sandpiper-registry-");
  const address = `127.0.0.1:${await freePort()}`;
  if (htpasswd) writeFileSync(join(dir, "htpasswd"), htpasswd);
  const config = {
    version: 0.1,
    log: { level: "error" },
    storage: { filesystem: { rootdirectory: join(dir, "data") } },
    http: { addr: address },
    ...(htpasswd ? { auth: { htpasswd: { realm: "test", path: join(dir, "htpasswd") } } } : {}),
  };
  writeFileSync(join(dir, "config.yml"), JSON.stringify(config));
  const registry = spawn(
    "setpriv",
    ["--pdeathsig", "KILL", "docker-registry", "serve", join(dir, "config.yml")],
    {
      stdio: "ignore",
    },
  );
  for (const end = Date.now() + 10_000; ; ) {
    const answer = await fetch(`http://${address}/v2/`).catch(() => undefined);
    if (answer) break;
    if (Date.now() > end || registry.exitCode !== null) {
      throw new Error(
        "The tests need a registry (`apt-get install docker-registry`), and it does not start here.",
      );
    }
    await delay(20);
  }
  return {
    address,
    end: async () => {
      registry.kill("SIGKILL");
      if (registry.exitCode === null && registry.signalCode === null) await once(registry, "exit");
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
