import { createInterface } from "node:readline";
import { OciDriver } from "../../src/drivers/oci/oci-driver.ts";
import { Registries } from "../../src/specs/registries.ts";
import { run } from "./oci.ts";

// Opens a driver over a folder. The argument is JSON: options of the driver and allowed registries.
// Reads one call in each line, and prints a line for each answer and each line of progress.
const { registries = [], ...options } = JSON.parse(process.argv[2]!);
const driver = new OciDriver({ ...options, registries: new Registries({ allowed: registries }) });

const methods: Record<string, (...given: never[]) => unknown> = {
  open: () => driver.open(),
  prepare: (spec) => driver.prepare(spec, { onProgress: (progress) => print({ progress }) }),
  start: (request) => driver.start(request),
  run: (id, command) => run(driver, id, command),
  pause: (id) => driver.pause(id),
  resume: (id) => driver.resume(id),
  stop: (id) => driver.stop(id),
  remove: (id) => driver.remove(id),
  snapshot: (id, snapshot) => driver.snapshot(id, snapshot),
  removeSnapshot: (snapshot) => driver.removeSnapshot(snapshot),
  snapshots: () => driver.snapshots(),
  list: () => driver.list(),
  reap: (sandboxes, snapshots) =>
    driver.reap({ sandboxes: new Set(sandboxes), snapshots: new Set(snapshots) }),
  close: () => driver.close(),
};

function print(message: object): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

createInterface({ input: process.stdin }).on("line", async (line) => {
  const { number, method, args } = JSON.parse(line);
  try {
    print({ number, result: (await methods[method]!(...(args as never[]))) ?? null });
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    print({ number, error: { code, message } });
  }
});
