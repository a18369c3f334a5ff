import { stub } from "@sandpiper/core/test/support/stub";
import { until } from "@sandpiper/core/test/support/until";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openTestDriver, testSpec } from "../../test/support/oci.ts";
import type { ExecRequest } from "../driver.ts";
import type { OciDriver } from "../drivers/oci/oci-driver.ts";
import type { CommandRunner } from "./files.ts";
import { openOutput } from "./output-stream.ts";

let driver: OciDriver;
let end: () => Promise<void>;
beforeAll(async () => {
  ({ driver, end } = await openTestDriver());
  await driver.start({ id: "run", spec: testSpec });
});
afterAll(() => end());

test("a stream does not wait for a sandbox that is paused between a script's output and its end", async () => {
  const sandbox = stub<CommandRunner>({
    shell: ["sh"],
    exec: (request: ExecRequest) => driver.exec("run", request),
  });
  // The exec of the runtime keeps the output open; the sandbox's warm shell, which is ready soon,
  // does not.
  const headMs = 2_000;
  const opened = await until(async () => {
    const began = performance.now();
    const output = await openOutput(sandbox, "exec >&-; sleep 300", [], { maxHead: 10, headMs });
    if (performance.now() - began < headMs - 100) return output;
    await output.end();
    return undefined;
  });
  expect(opened.head).toBeUndefined();
  await driver.pause("run");
  try {
    expect(await opened.end()).toMatchObject({ timedOut: true });
  } finally {
    await driver.resume("run");
  }
});
