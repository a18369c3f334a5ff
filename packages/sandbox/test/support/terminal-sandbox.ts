import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { PreparedSpec } from "../../src/driver.ts";
import { OciDriver } from "../../src/drivers/oci/oci-driver.ts";
import type { Sandbox } from "../../src/sandbox.ts";

/** Starts a sandbox in an installation of its own, which is in a new folder or in `dir`. */
export async function testSandbox(dir = mkdtempSync(join(tmpdir(), "sandpiper-terminal-"))): Promise<{
  sandbox: Sandbox;
  driver: OciDriver;
  dir: string;
  remove(): Promise<void>;
}> {
  const driver = new OciDriver({ dir });
  await driver.open();
  const id = "shell-1";
  const spec: PreparedSpec = {
    id: "host",
    root: { kind: "host" },
    command: null,
    env: { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", LANG: "C.UTF-8" },
    workingDir: "/workspace",
    user: { name: "sandpiper", uid: 1000, gid: 1000, home: "/home/sandpiper" },
    limits: { memoryBytes: 1024 ** 3, pids: 512, cpus: 2, diskBytes: 1024 ** 3 },
    network: { mode: "none", allow: [], credentials: [] },
  };
  await driver.start({ id, spec });
  return {
    driver,
    dir,
    sandbox: { id, incarnation: "1", spec, shell: driver.shell, exec: (command) => driver.exec(id, command) },
    async remove() {
      await driver.remove(id);
      await driver.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
