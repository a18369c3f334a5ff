import { join } from "node:path";
import type { Logger } from "@sandpiper/core/log/logger";
import type { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { SandboxDriver } from "@sandpiper/sandbox/driver";
import { OciDriver } from "@sandpiper/sandbox/drivers/oci/oci-driver";
import type { Registries } from "@sandpiper/sandbox/specs/registries";
import type { Config } from "./config/config.ts";
import { loadPlaceId } from "./nodes/place-id.ts";

/**
 * Loads the driver that the configuration names, and no other one: the client library of another
 * driver would take a tenth of the start.
 */
export async function createDriver(
  { driver, dataDir, runtime, registryAuth, dockerHost, kubernetes, maxImageBytes }: Config,
  {
    registries,
    logger,
    scheduler,
    cluster,
  }: {
    registries: Registries;
    logger: Logger;
    scheduler: EventLoopScheduler;
    /** Id of the installation of several nodes; undefined: this server is alone. */
    cluster: string | undefined;
  },
): Promise<SandboxDriver> {
  if (driver === "docker") {
    const { DockerDriver } = await import("@sandpiper/sandbox/drivers/docker/docker-driver");
    const dir = join(dataDir, "docker");
    return new DockerDriver({ dir, host: dockerHost, authFile: registryAuth, registries, maxImageBytes });
  }
  if (driver === "kubernetes") {
    const { KubernetesDriver } = await import("@sandpiper/sandbox/drivers/kubernetes/kubernetes-driver");
    const installation = kubernetes.installation ?? cluster?.replaceAll("-", "").slice(0, 12);
    return new KubernetesDriver({
      dir: join(dataDir, "kubernetes"),
      ...kubernetes,
      installation,
      registries,
    });
  }
  const dir = join(dataDir, "sandboxes");
  return new OciDriver({ dir, runtime, registryAuth, registries, maxImageBytes, logger, scheduler });
}

/** The place of the sandboxes of a server; null: every node can run them. */
export async function findPlace({ driver, dataDir }: Config): Promise<string | null> {
  return driver === "kubernetes" ? null : loadPlaceId(dataDir);
}
