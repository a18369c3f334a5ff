import { pathToFileURL } from "node:url";
import { nameOf } from "../run-checks.ts";

/** Runs checks in this process and prints one JSON object a line, as python/run.py does. */
const say = (what: object) => process.stdout.write(`${JSON.stringify(what)}\n`);
for (const path of process.argv.slice(2)) {
  const check = nameOf(path);
  say({ begins: check });
  const began = performance.now();
  let [result, detail] = ["passed", ""];
  try {
    await import(pathToFileURL(path).href);
  } catch (error) {
    [result, detail] = ["failed", String(error).slice(0, 600)];
    console.error(error);
  }
  say({ check, result, detail, seconds: (performance.now() - began) / 1000 });
}
process.exit(0);
