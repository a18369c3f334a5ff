import { join } from "node:path";
import { home, place, prepareFolder, root } from "../prepare-folder.ts";
import { Server } from "../server.ts";
import { normaliseRows } from "./normalise.ts";
import { scenes } from "./scenes.ts";
import { drawRows, readRows, type Span } from "./svg.ts";
import { play } from "./terminal.ts";

/**
 * Plays all scenes as process 1 of its own namespaces (main.ts makes them), with one server, and
 * prints a JSON object with the SVG of each. Argument: an empty folder.
 */
const [folder = ""] = process.argv.slice(2);
const timeoutMs = 120_000;
const env = Object.fromEntries(
  Object.entries(prepareFolder(folder)).filter((entry): entry is [string, string] => entry[1] !== undefined),
);
const server = new Server(join(root, "bin/sandpiper"), env, join(place, "server.log"));
await server.start(timeoutMs);
const pictures: Record<string, string> = {};
let failure: unknown;
try {
  for (const scene of scenes) {
    const rows = normaliseRows(readRows(await play(scene, join(home, "sandpiper"), env, timeoutMs)), folder);
    pictures[scene.name] = drawRows(shorten(rows, scene.rows), scene.columns, scene.command);
  }
} catch (error) {
  failure = error;
} finally {
  await server.stop(timeoutMs);
}
if (failure) console.error(failure instanceof Error ? failure.message : failure);
process.stdout.write(JSON.stringify(pictures), () => process.exit(failure ? 1 : 0));

function shorten(rows: Span[][], { first, last }: { first: number; last: number }): Span[][] {
  if (rows.length <= first + last) return rows;
  return [...rows.slice(0, first), [{ column: 0, text: "⋯", style: "" }], ...rows.slice(rows.length - last)];
}
