import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Document, factsOf } from "@sandpiper/server/test/openapi/facts";

/**
 * Reduces OpenAPI documents of the reference to the facts that the tests compare:
 * `scripts/node scripts/reduce-contract.ts FOLDER` reads `app-server.json`, `agent-server.json` and `legacy-v0.json` there.
 */
const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error("Name the folder of the OpenAPI documents.");
const target = new URL("../packages/server/test/openapi/contract/", import.meta.url);
for (const name of ["app-server", "agent-server", "legacy-v0"]) {
  const document = JSON.parse(readFileSync(join(folder, `${name}.json`), "utf8")) as Document;
  const facts = Object.entries(factsOf(document)).sort(([a], [b]) => (a < b ? -1 : 1));
  const lines = facts.map(([operation, fact]) => `  ${JSON.stringify(operation)}: ${JSON.stringify(fact)}`);
  writeFileSync(new URL(`${name}.json`, target), `{\n${lines.join(",\n")}\n}\n`);
}
