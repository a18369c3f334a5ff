import { registerHooks } from "node:module";
import { pathToFileURL } from "node:url";
import { nameOf } from "../run-checks.ts";

/**
 * Runs checks in this process and prints one JSON object a line, as python/run.py does. The folder
 * CLIENT has the version of the client in its node_modules.
 */
const client = pathToFileURL(`${process.env.CLIENT}/package.json`).href;
registerHooks({
  resolve: (specifier, context, next) =>
    next(
      specifier,
      specifier.startsWith("@openhands/typescript-client") ? { ...context, parentURL: client } : context,
    ),
});
// As a module of Node.js the client finds no WebSocket; in a browser it takes the window's.
Object.assign(globalThis, { window: globalThis });

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
