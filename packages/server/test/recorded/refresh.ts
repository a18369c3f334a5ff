import { writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { scenarios } from "./scenarios.ts";
import { Session } from "./session.ts";

/**
 * Records the named runs again, or all of them, after an intended change of the agent.
 *
 *     refresh=packages/server/test/recorded/refresh.ts
 *     scripts/elevate scripts/isolate scripts/node $refresh [name …]
 */
const wanted = process.argv.slice(2);
for (const [name, play] of Object.entries(scenarios)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  const session = await Session.open();
  try {
    await play(session);
    const text = await session.recording();
    await writeFile(fileURLToPath(new URL(`./${name}.jsonl`, import.meta.url)), text);
    process.stdout.write(`${name}: ${text.length} characters\n`);
  } finally {
    await session.close();
  }
}
process.exit();
