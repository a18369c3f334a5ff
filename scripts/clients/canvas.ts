import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { canvasVersion } from "@sandpiper/server/cli/gui/canvas-package";
import type { Result } from "./run-checks.ts";

interface Report {
  testResults: {
    assertionResults: { title: string; status: string; duration?: number; failureMessages: string[] }[];
  }[];
}

/** Agent Canvas in Chromium, as `sandpiper gui` serves it: the tests of that command. */
export async function runCanvas(
  root: string,
  cache: string,
  onResult: (result: Result) => void,
): Promise<void> {
  const file = join(cache, "agent-canvas.json");
  const child = spawn(
    process.execPath,
    [
      ...[join(root, "node_modules/vitest/vitest.mjs"), "run", "--project=slow", "--maxWorkers=1"],
      ...["--reporter=json", `--outputFile.json=${file}`, "packages/server/test/gui.slow.test.ts"],
    ],
    { cwd: root, stdio: ["ignore", "ignore", "inherit"] },
  );
  await once(child, "exit");
  const { testResults } = JSON.parse(readFileSync(file, "utf8")) as Report;
  for (const { title, status, duration = 0, failureMessages } of testResults.flatMap(
    ({ assertionResults }) => assertionResults,
  ))
    onResult({
      client: "Agent Canvas",
      version: canvasVersion,
      check: title,
      result: status === "passed" ? "passed" : "failed",
      detail: failureMessages[0] ?? "",
      seconds: duration / 1000,
    });
}
