import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { PreparedSpec, SandboxDriver } from "@sandpiper/sandbox/driver";
import { DockerDriver } from "@sandpiper/sandbox/drivers/docker/docker-driver";
import { OciDriver } from "@sandpiper/sandbox/drivers/oci/oci-driver";
import { createHostSpec } from "@sandpiper/sandbox/specs/specs";
import { startTestEngine } from "@sandpiper/sandbox/test/support/docker-engine";
import { busyboxImage, importTestImages } from "@sandpiper/sandbox/test/support/docker-image";
import { figures, inTurn, type Row } from "./measure.ts";
import { TimedShell } from "./timed-shell.ts";

const limits = { memoryBytes: 2 * 2 ** 30, pids: 512, cpus: 2, diskBytes: 2 ** 30 };

/**
 * Both drivers compared with Docker's command line on its own daemon. The daemon has no bridge: its
 * containers have no network, which is quicker than a usual `docker run`. Without Docker there are
 * no rows.
 */
export async function benchDocker(): Promise<Row[]> {
  const missing = ["docker", "dockerd"].find(
    (name) => spawnSync("sh", ["-c", `PATH=$PATH:/usr/sbin command -v ${name}`]).status !== 0,
  );
  if (missing !== undefined) {
    console.error(`left out: there is no ${missing} on this machine.`);
    return [];
  }
  const dir = mkdtempSync("/tmp/sandpiper-bench-");
  const shell = new TimedShell();
  const engine = await startTestEngine();
  const docker = new DockerDriver({ dir: join(dir, "docker"), host: { socketPath: engine.socketPath } });
  const oci = new OciDriver({ dir: join(dir, "oci") });
  try {
    await importTestImages(engine.engine.docker);
    await docker.open();
    await oci.open();
    const host = createHostSpec(limits);
    const image = await docker.prepare({
      ...host,
      root: { kind: "image", reference: busyboxImage },
      user: null,
    });
    return await compare({ oci, host, docker, image }, shell, `docker --host unix://${engine.socketPath}`);
  } finally {
    for (const driver of [oci, docker]) {
      for (const { id } of await driver.list()) await driver.remove(id);
      await driver.close();
    }
    await engine.end();
    shell.close();
    rmSync(dir, { recursive: true, force: true });
  }
}

interface Drivers {
  oci: OciDriver;
  host: PreparedSpec;
  docker: DockerDriver;
  image: PreparedSpec;
}

async function compare(
  { oci, host, docker, image }: Drivers,
  shell: TimedShell,
  client: string,
): Promise<Row[]> {
  const works = [
    (index: number) => startToOutput(oci, host, `sandbox${index}`),
    (index: number) => startToOutput(docker, image, `sandbox${index}`),
    (index: number) => shell.time(dockerRun(client, `bare${index}`)),
  ];
  const [ours, byDriver, run] = await inTurn(20, works, { warmUp: 5, block: 5 });
  const [ociFigures, driverFigures, runFigures] = [figures(ours!), figures(byDriver!), figures(run!)];
  const floor = { name: "docker run + docker exec", figures: runFigures };
  return [
    {
      name: "oci driver: start to first output",
      unit: "ms",
      figures: ociFigures,
      floor,
      target: "<= floor / 15",
      met: ociFigures.p50 * 15 <= runFigures.p50,
    },
    {
      name: "docker driver: start to first output",
      unit: "ms",
      figures: driverFigures,
      floor,
      target: "<= 1.2 x floor",
      met: driverFigures.p50 <= 1.2 * runFigures.p50,
    },
  ];
}

/** A container as isolated and limited as a sandbox, and the first output of a command in it. */
function dockerRun(client: string, name: string): string {
  const isolation =
    "--init --network none --cap-drop ALL --security-opt no-new-privileges --oom-score-adj 500 --shm-size 256m";
  const amounts = "--memory 2g --memory-swap 2g --cpus 2 --pids-limit 512 --ulimit core=0";
  const run = `${client} run --detach --name ${name} ${isolation} ${amounts} ${busyboxImage} sleep 1000`;
  return `${run} && read -r line < <(exec ${client} exec --user 1000:1000 ${name} echo ready); [ "$line" = ready ]`;
}

async function startToOutput(driver: SandboxDriver, spec: PreparedSpec, id: string): Promise<number> {
  const began = performance.now();
  await driver.start({ id, spec });
  const child = await driver.exec(id, { argv: ["echo", "ready"] });
  await once(child.stdout, "data");
  const took = performance.now() - began;
  await child.exit;
  return took;
}
