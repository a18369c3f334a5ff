import { mkdtempSync, rmSync } from "node:fs";
import { expect, test } from "vitest";
import { KubernetesDriver } from "../../src/drivers/kubernetes/kubernetes-driver.ts";
import { Registries } from "../../src/specs/registries.ts";
import { createHostSpec } from "../../src/specs/specs.ts";
import { run, suiteLimits } from "../driver-suite/context.ts";
import { clusterImage, clusterKubeconfig, loadClusterImage } from "../support/cluster-image.ts";

test("a home has the image's files at the first start, and the user's at later ones", async () => {
  const dir = mkdtempSync("/tmp/sandpiper-test-");
  loadClusterImage();
  const registries = new Registries({ allowed: ["sandpiper.test"] });
  const driver = new KubernetesDriver({
    ...{ dir, kubeconfig: clusterKubeconfig(), runtimeClass: "runc", registries },
  });
  try {
    await driver.open();
    const root = { kind: "image" as const, reference: clusterImage };
    const spec = await driver.prepare({ ...createHostSpec(suiteLimits), root, user: "agent" });
    const files = [{ path: "~/.config/tool.conf", content: "given\n" }];
    await driver.start({ id: "home", spec, files });
    const list = "cd; ls -lnA . .config | tr -s ' ' | cut -d' ' -f1,3,4,9-; cat .profile";
    expect((await run(driver, "home", list)).out).toMatchInlineSnapshot(`
      ".:
      total   
      drwxr-xr-x 1000 1000 .config
      -rw-r--r-- 1000 1000 .profile
      lrwxrwxrwx 1000 1000 link -> .profile

      .config:
      total   
      -rw-r--r-- 0 0 tool.conf
      of the image
      "
    `);
    await run(driver, "home", "cd; echo changed >.profile; rm link; echo x >new");
    await driver.stop("home");
    await driver.start({ id: "home", spec, files });
    expect((await run(driver, "home", "cd; cat .profile; ls")).out).toBe("changed\nnew\n");
    await driver.snapshot("home", "kept");
    await driver.start({ id: "copy", spec, snapshot: "kept" });
    expect((await run(driver, "copy", "cd; cat .profile; ls")).out).toBe("changed\nnew\n");
  } finally {
    await driver.reap({ sandboxes: new Set(), snapshots: new Set() });
    await driver.close();
    rmSync(dir, { recursive: true, force: true });
  }
});
