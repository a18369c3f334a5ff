import { mkdtempSync, rmSync } from "node:fs";
import { suiteLimits } from "../../../test/driver-suite/context.ts";
import { describeDriver } from "../../../test/driver-suite/driver-suite.ts";
import { startTestEngine } from "../../../test/support/docker-engine.ts";
import { busyboxImage, importTestImages } from "../../../test/support/docker-image.ts";
import { createHostSpec } from "../../specs/specs.ts";
import { DockerDriver } from "./docker-driver.ts";

describeDriver("the docker driver", async () => {
  const engine = await startTestEngine();
  const dir = mkdtempSync("/tmp/sandpiper-test-");
  const host = { socketPath: engine.socketPath };
  await importTestImages(engine.engine.docker);
  const driver = new DockerDriver({ dir, host });
  await driver.open();
  return {
    driver,
    spec: {
      ...createHostSpec(suiteLimits),
      root: { kind: "image", reference: busyboxImage },
      env: { OF_SPEC: "a b" },
      user: null,
    },
    unusable: [
      [{ kind: "host" }, /^The docker driver starts sandboxes from images only, not from the host's files: /],
      [{ kind: "folder", path: "/tmp" }, /not from a folder/],
      [
        { kind: "image", reference: "UPPER/case:1" },
        /^The engine does not accept UPPER\/case:1 as an image reference: /,
      ],
      [{ kind: "image", reference: "a name" }, /^"a name" is not an image reference: /],
      [{ kind: "image", reference: `sha256:${"0".repeat(64)}` }, /^The engine has no image sha256:0+\.$/],
      [
        { kind: "image", reference: "127.0.0.1:1/nothing:1" },
        /^The container engine asks registries by itself, .* 127\.0\.0\.1:1 /,
      ],
    ],
    reopen: async () => {
      const again = new DockerDriver({ dir, host });
      await again.open();
      return again;
    },
    end: async () => {
      await driver.close();
      await engine.end();
      rmSync(dir, { recursive: true, force: true });
    },
  };
});
