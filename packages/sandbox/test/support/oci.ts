import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ExecRequest, PreparedSpec, SandboxDriver } from "../../src/driver.ts";
import { getInstallationGroup } from "../../src/drivers/oci/cgroup/cgroups.ts";
import { findRuntime } from "../../src/drivers/oci/container/runtime.ts";
import { OciDriver } from "../../src/drivers/oci/oci-driver.ts";
import { openRuntimeDir } from "../../src/drivers/oci/storage/runtime-dir.ts";
import { type RunOptions, runToEnd } from "../../src/shell/run.ts";
import { createHostSpec } from "../../src/specs/specs.ts";

/** The runtimes that work on this machine; tests run with each. */
export async function workingRuntimes(): Promise<string[]> {
  const found = await Promise.all(
    ["crun", "runc"].map((name) =>
      findRuntime(name).then(
        (runtime) => (runtime.kind === name ? [name] : []),
        () => [],
      ),
    ),
  );
  return found.flat();
}

export const testSpec: PreparedSpec = createHostSpec({
  memoryBytes: 256 * 2 ** 20,
  pids: 64,
  cpus: 2,
  diskBytes: 2 ** 30,
});

/** Opens a driver in a new folder, with a function that removes all that it created. */
export async function openTestDriver(
  runtime?: string,
): Promise<{ driver: OciDriver; dir: string; end: () => Promise<void> }> {
  const top = mkdtempSync("/tmp/sandpiper-test-");
  const dir = join(top, "sandboxes");
  const driver = new OciDriver({ dir, runtime });
  await driver.open();
  const end = async () => {
    await driver.open();
    for (const { id } of await driver.list()) await driver.remove(id);
    await driver.close();
    rmSync(top, { recursive: true, force: true });
  };
  return { driver, dir, end };
}

/** The runtime folder of an installation. */
export function getRuntimeDir(dir: string): string {
  return openRuntimeDir(`${basename(getInstallationGroup(dir))}-run`);
}

/** Runs a command to its end; returns output as text. */
export async function run(
  driver: SandboxDriver,
  id: string,
  command: string | ExecRequest,
  options: RunOptions = {},
) {
  const request = typeof command === "string" ? { argv: ["sh", "-c", command] } : command;
  const { code, stdout, stderr } = await runToEnd({ exec: (one) => driver.exec(id, one) }, request, {
    timeoutMs: 150_000,
    ...options,
  });
  return { code, out: stdout.toString(), err: stderr.toString() };
}

/** Folders of the control groups of an installation's sandboxes. */
export function groups(dir: string): string[] {
  const mount = "/sys/fs/cgroup";
  const group = getInstallationGroup(dir);
  return [mount, ...readdirSync(mount).map((name) => join(mount, name))]
    .map((folder) => folder + group)
    .filter((folder) => existsSync(folder))
    .flatMap((folder) => readdirSync(folder, { withFileTypes: true }))
    .filter((entry) => entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name));
}

/** Starts another process with a `driver` over the same folder that runs `code`. */
export function startDriverProcess(code: string, dir: string, runtime: string) {
  const head = `import { OciDriver } from ${JSON.stringify(fileURLToPath(new URL("../../src/drivers/oci/oci-driver.ts", import.meta.url)))};
    const driver = new OciDriver(${JSON.stringify({ dir, runtime })});`;
  return spawn(process.execPath, ["--input-type=module", "-e", head + code], {
    stdio: ["ignore", "pipe", "inherit"],
  });
}
