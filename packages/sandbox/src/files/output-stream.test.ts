import { stub } from "@sandpiper/core/test/support/stub";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openTestDriver, testSpec } from "../../test/support/oci.ts";
import type { ExecRequest } from "../driver.ts";
import type { OciDriver } from "../drivers/oci/oci-driver.ts";
import { runToEnd } from "../shell/run.ts";
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
  // From its second command on a sandbox has a shell that commands go through.
  for (let round = 0; round < 3; round++)
    await runToEnd({ exec: (one) => driver.exec("run", one) }, { argv: ["true"] });
  const opened = await openOutput(sandbox, "exec >&-; sleep 300", [], { maxHead: 10, headMs: 60_000 });
  expect(opened.head).toBeUndefined();
  await driver.pause("run");
  try {
    expect(await opened.end()).toMatchObject({ timedOut: true });
  } finally {
    await driver.resume("run");
  }
});
