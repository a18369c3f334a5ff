import { mkdirSync, writeFileSync } from "node:fs";
import { arch, cpus, release, totalmem } from "node:os";
import { fileURLToPath } from "node:url";
import { benchAgent } from "./agent.ts";
import { benchApi } from "./api.ts";
import { benchAttacks } from "./attacks.ts";
import { findAttacks } from "./attacks-list.ts";
import { benchBytes } from "./bytes.ts";
import { benchClients } from "./clients.ts";
import { benchCommands } from "./commands.ts";
import { benchDocker } from "./docker.ts";
import { benchFiles } from "./files.ts";
import { benchHibernated } from "./hibernated.ts";
import { benchKubernetes } from "./kubernetes.ts";
import { benchLifecycle } from "./lifecycle.ts";
import { type Row, table } from "./measure.ts";
import { benchNodes } from "./nodes.ts";
import { benchPlatform } from "./platform.ts";
import { benchPostgres } from "./postgres.ts";
import { benchSandboxes } from "./sandboxes.ts";
import { benchScale } from "./scale.ts";
import { benchServer } from "./server.ts";
import { benchSockets } from "./sockets.ts";
import { benchStart } from "./start.ts";
import { benchText } from "./text.ts";

const groups = {
  start: benchStart,
  sandboxes: benchSandboxes,
  lifecycle: benchLifecycle,
  files: benchFiles,
  docker: benchDocker,
  kubernetes: benchKubernetes,
  platform: benchPlatform,
  postgres: benchPostgres,
  bytes: benchBytes,
  nodes: benchNodes,
  server: benchServer,
  api: benchApi,
  scale: benchScale,
  hibernated: benchHibernated,
  sockets: benchSockets,
  commands: benchCommands,
  agent: benchAgent,
  clients: benchClients,
  text: benchText,
  attacks: () => benchAttacks(chosen),
};

/**
 * Runs the groups named as arguments, or all; writes bench/results/latest.json. A group that fails
 * is named at the end, and the others are measured. After `attacks`, other words choose attacks
 * whose names contain them.
 */
const words = process.argv.slice(2);
const isGroup = (word: string) => Object.hasOwn(groups, word);
const chosen = words[0] === "attacks" ? words.filter((word) => !isGroup(word)) : [];
const wanted = words.filter((word) => !chosen.includes(word));
const unknown = wanted.filter((word) => !isGroup(word));
if (unknown.length > 0) {
  console.error(`Unknown group ${unknown.join(", ")}; there are: ${Object.keys(groups).join(", ")}.`);
  process.exit(2);
}
const strange = chosen.filter((text) => findAttacks([text]).length === 0);
if (strange.length > 0) {
  const names = findAttacks([]).map(({ name }) => `  ${name}`);
  console.error(`No attack is named ${strange.join(", ")}; there are:\n${names.join("\n")}`);
  process.exit(2);
}
const rows: Row[] = [];
const failed: string[] = [];
for (const [name, run] of Object.entries(groups)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  console.error(`measuring ${name} …`);
  try {
    rows.push(...(await run()));
  } catch (error) {
    console.error(error);
    failed.push(name);
  }
}
const machine = {
  node: process.version,
  kernel: release(),
  arch: arch(),
  cpus: cpus().length,
  memoryBytes: totalmem(),
};
console.log(`Node ${machine.node}, Linux ${machine.kernel} ${machine.arch}, ${machine.cpus} CPUs\n`);
console.log(table(rows));
const folder = fileURLToPath(new URL("./results/", import.meta.url));
mkdirSync(folder, { recursive: true });
writeFileSync(
  `${folder}latest.json`,
  `${JSON.stringify({ at: new Date().toISOString(), machine, rows }, null, 2)}\n`,
);
if (failed.length > 0) {
  console.error(`These groups could not be measured, for the reasons above: ${failed.join(", ")}.`);
  process.exitCode = 1;
}
