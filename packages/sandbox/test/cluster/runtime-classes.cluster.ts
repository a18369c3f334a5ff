import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { labels } from "../../src/drivers/kubernetes/labels.ts";
import { makeSandboxPod } from "../../src/drivers/kubernetes/pod-options.ts";
import { createHostSpec } from "../../src/specs/specs.ts";
import { suiteLimits } from "../driver-suite/context.ts";
import { clusterImage, kubectl } from "../support/cluster-image.ts";

/** Pods for runtimes that the test cluster cannot run: its API server checks them in a dry run. */

const dir = mkdtempSync("/tmp/sandpiper-test-");
const classes = ["test-gvisor", "test-kata"];

afterAll(() => {
  kubectl("delete", "runtimeclass", ...classes, "--ignore-not-found");
  rmSync(dir, { recursive: true, force: true });
});

/** Gives the object to kubectl, and returns its output. */
function give(object: object, ...argv: string[]): string {
  const path = join(dir, "object.json");
  writeFileSync(path, JSON.stringify(object));
  return kubectl(...argv, "-f", path);
}

test.each([
  { runtimeClass: classes[0]!, handler: "runsc", userNamespaces: false },
  { runtimeClass: classes[1]!, handler: "kata", userNamespaces: true },
])("the API server accepts a pod with the runtime $handler", ({ runtimeClass, handler, userNamespaces }) => {
  const metadata = { name: runtimeClass };
  give({ apiVersion: "node.k8s.io/v1", kind: "RuntimeClass", metadata, handler }, "apply");
  const pod = makeSandboxPod(
    {
      ...{ name: "sandpiper-dry-run", hostname: "dry-run", claim: "sandpiper-dry-run", isSeeded: false },
      labels: { [labels.sandbox]: "dry-run" },
      folders: [{ path: "/home/agent", subPath: "home" }],
      spec: {
        ...createHostSpec(suiteLimits),
        root: { kind: "image", reference: clusterImage },
        user: { uid: 1000, gid: 1000, name: "agent", home: "/home/agent" },
      },
    },
    {
      ...{ installation: "dry", configMap: "helper", busyboxMaps: ["busybox"], pullSecrets: [] },
      ...{ runtimeClass, userNamespaces },
    },
  );
  const object = { apiVersion: "v1", kind: "Pod", ...pod };
  const accepted = give(object, "create", "--dry-run=server", "-o", "json");
  expect(JSON.parse(accepted).spec).toMatchObject({
    runtimeClassName: runtimeClass,
    ...(userNamespaces ? { hostUsers: false } : {}),
  });
  const unknown = { ...object, spec: { ...object.spec, runtimeClassName: "test-none" } };
  expect(() => give(unknown, "create", "--dry-run=server")).toThrow(/RuntimeClass "test-none" not found/);
});
