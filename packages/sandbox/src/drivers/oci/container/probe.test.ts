import { expect, test } from "vitest";
import { probeOci } from "./probe.ts";
import { findRuntime } from "./runtime.ts";

test("reports what this machine supports and how to fix what is missing", async () => {
  const facts = await probeOci();
  expect(facts.filter(({ ok }) => !ok)).toEqual([]);
  expect(facts.find(({ name }) => name === "OCI runtime")?.detail).toMatch(/^(crun|runc) \d/);
});

test("names a configured runtime that is missing", async () => {
  const fact = (await probeOci("no-such-runtime")).find(({ name }) => name === "OCI runtime");
  expect(fact).toMatchObject({
    ok: false,
    detail: expect.stringContaining("no-such-runtime"),
    fix: expect.stringContaining("apt-get install"),
  });
});

test.each(["/bin/ls", "/usr/bin/git", "/bin/false"])("does not accept %s as a runtime", async (program) => {
  await expect(findRuntime(program)).rejects.toMatchObject({
    code: "SandboxFailed",
    message: expect.stringContaining(`${program} does not run here as an OCI runtime`),
  });
});
