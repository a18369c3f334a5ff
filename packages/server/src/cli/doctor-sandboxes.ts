import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { errorText } from "@sandpiper/core/errors";
import { DockerDriver } from "@sandpiper/sandbox/drivers/docker/docker-driver";
import { probeOci } from "@sandpiper/sandbox/drivers/oci/container/probe";
import { OciDriver } from "@sandpiper/sandbox/drivers/oci/oci-driver";
import { createHostSpec } from "@sandpiper/sandbox/specs/specs";
import type { Config } from "../config/config.ts";
import { type DoctorFinding, finding } from "./finding.ts";
import { formatDuration } from "./style.ts";

/** Checks the requirements of sandboxes, and whether one starts. */
export async function examineSandboxes(config: Config): Promise<DoctorFinding[]> {
  // A met requirement with advice could be improved.
  if (config.driver === "docker") return [await checkEngine(config)];
  if (config.driver === "kubernetes") {
    // The import is lazy, because the client library takes long to load.
    const { examineCluster } = await import("./doctor-kubernetes.ts");
    return await examineCluster(config);
  }
  const facts = await probeOci(config.runtime);
  return [
    ...facts.map(({ name, ok, detail, fix }) => finding(name, !ok, ok && !fix, detail, fix)),
    await trySandbox(config),
  ];
}

/** Whether the engine of the docker driver answers. */
async function checkEngine({ dockerHost, registryAuth }: Config): Promise<DoctorFinding> {
  const dir = await mkdtemp(join(tmpdir(), "sandpiper-doctor-"));
  const driver = new DockerDriver({ dir, host: dockerHost, authFile: registryAuth });
  try {
    await driver.open();
    return finding("container engine", true, true, "answers");
  } catch (error) {
    return finding("container engine", true, false, "cannot be used", errorText(error));
  } finally {
    await driver.close();
    await rm(dir, { recursive: true, force: true });
  }
}

/** Starts a sandbox, runs a command in it and removes it. */
async function trySandbox(config: Config): Promise<DoctorFinding> {
  const name = "sandbox";
  if (process.getuid?.() !== 0)
    return finding(
      name,
      false,
      false,
      "not tried: this user cannot run sandboxes",
      "Run `sudo bin/sandpiper doctor` to test a sandbox.",
    );
  const dir = await mkdtemp(join(tmpdir(), "sandpiper-doctor-"));
  const driver = new OciDriver({ dir, runtime: config.runtime });
  const id = "doctor";
  try {
    await driver.open();
    const begin = performance.now();
    await driver.start({ id, spec: createHostSpec(config.limits) });
    const command = await driver.exec(id, { argv: ["true"] });
    const { code } = await command.exit;
    const taken = formatDuration(performance.now() - begin);
    return finding(
      name,
      true,
      code === 0,
      code === 0 ? `started and ran a command in ${taken}` : `a command in it exited with ${code}`,
    );
  } catch (error) {
    return finding(name, true, false, "does not start", errorText(error));
  } finally {
    await driver.remove(id).catch(() => {});
    await driver.close();
    await rm(dir, { recursive: true, force: true });
  }
}
