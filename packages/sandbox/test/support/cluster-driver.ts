import { mkdtempSync, rmSync } from "node:fs";
import { expect, vi } from "vitest";
import { loadInstallationId } from "../../src/drivers/common/installation-id.ts";
import {
  KubernetesDriver,
  type KubernetesDriverOptions,
} from "../../src/drivers/kubernetes/kubernetes-driver.ts";
import { Registries } from "../../src/specs/registries.ts";
import { createHostSpec } from "../../src/specs/specs.ts";
import { suiteLimits } from "../driver-suite/context.ts";
import { describeDriver } from "../driver-suite/driver-suite.ts";
import { clusterImage, clusterKubeconfig, kubectl, loadClusterImage } from "./cluster-image.ts";

/** Runs the driver suite on the test cluster. */
export function describeClusterDriver(title: string, given: Partial<KubernetesDriverOptions> = {}): void {
  describeDriver(title, async () => {
    const dir = mkdtempSync("/tmp/sandpiper-test-");
    loadClusterImage();
    const options = {
      dir,
      kubeconfig: clusterKubeconfig(),
      runtimeClass: "runc",
      registries: new Registries({ allowed: ["sandpiper.test", "127.0.0.1:1"] }),
      ...given,
    };
    const driver = new KubernetesDriver(options);
    await driver.open();
    return {
      driver,
      spec: {
        ...createHostSpec(suiteLimits),
        root: { kind: "image", reference: clusterImage },
        env: { OF_SPEC: "a b" },
        user: "agent",
        capabilities: [],
      },
      unusable: [
        [
          { kind: "host" },
          /^The kubernetes driver starts sandboxes from images only, not from the host's files: /,
        ],
        [{ kind: "folder", path: "/tmp" }, /not from a folder/],
        [{ kind: "image", reference: "a name" }, /^"a name" is not an image reference: /],
        [
          { kind: "image", reference: "127.0.0.1:1/nothing:1" },
          /^The cluster cannot fetch the image 127\.0\.0\.1:1\//,
        ],
        [{ kind: "image", reference: "registry.test/nothing:1" }, /SANDPIPER_REGISTRIES/],
      ],
      showsMachine: true,
      ...(given.warmPods ? { sharedHostName: "sandbox" } : {}),
      reopen: async () => {
        const again = new KubernetesDriver(options);
        await again.open();
        return again;
      },
      end: async () => {
        await driver.close();
        // A driver without a pool removes the warm pods of drivers that a test has killed.
        const last = new KubernetesDriver({ ...options, warmPods: 0 });
        await last.open();
        await last.reap({ sandboxes: new Set(), snapshots: new Set() });
        await last.close();
        const label = `sandpiper/installation=${options.installation ?? loadInstallationId(dir)}`;
        // A claim goes a moment after its pod.
        const left = () => kubectl("get", "pods,pvc", "-l", label, "-o", "name", "--ignore-not-found");
        await vi.waitFor(() => expect(left()).toBe(""), { timeout: 40_000, interval: 200 });
        rmSync(dir, { recursive: true, force: true });
      },
    };
  });
}
