import { posix } from "node:path";
import { runScript } from "@sandpiper/sandbox/files/files";
import type { ListDirectoryAction, ListDirectoryObservation, ListedFile } from "@sandpiper/wire";
import { isoTime, textContent } from "@sandpiper/wire";
import { Type } from "typebox";
import { toolDefinition } from "./definition.ts";
import { maxResult } from "./file-editor/edits.ts";
import { UseError } from "./file-editor/use-error.ts";
import { resolvePath, resultOf } from "./plain-files/access.ts";
import type { Tool, ToolContext } from "./tool.ts";

const maxEntries = 500;

const description = `Lists a directory with sizes and times, hidden files included, ${maxEntries} entries at most.

dir_path is absolute or relative to the working directory, which is the default. recursive adds the entries of the directories in it.`;

/** Folder, depth. Writes `mode size seconds path` per entry. Exit 42: missing; 43: no folder. */
const listScript = `
[ -e "$1" ] || exit 42
[ -d "$1" ] || exit 43
cd -- "$1" || exit 44
find . -mindepth 1 -maxdepth "$2" -exec stat -L -c '%f %s %Y %n' -- {} + 2>/dev/null
exit 0`;

/** Lists a folder, for agents of the SDK's gemini preset (events.md section 3). */
export const listDirectoryTool: Tool<ListDirectoryAction, ListDirectoryObservation> = {
  name: "list_directory",
  description,
  definition: toolDefinition("list_directory", "ListDirectory", description, "readOnly", "idempotent"),
  parameters: Type.Object({
    dir_path: Type.Optional(
      Type.String({ maxLength: 4000, default: ".", description: "The directory to list." }),
    ),
    recursive: Type.Optional(Type.Boolean({ default: false, description: "Two levels instead of one." })),
  }),
  actionKind: "ListDirectoryAction",
  idempotent: true,
  readOnly: true,
  resources: () => [],
  completeArguments: (received) => ({ dir_path: ".", recursive: false, ...received }),
  run({ dir_path: given = ".", recursive = false }, context) {
    const kind = "ListDirectoryObservation" as const;
    return resultOf(
      async () => {
        const path = resolvePath(context, given);
        const all = await listEntries(context, path, recursive ? 2 : 1);
        const entries = all.slice(0, maxEntries);
        return {
          kind,
          content: [textContent(describe(path, entries, all.length))],
          dir_path: path,
          entries,
          total_count: all.length,
          is_truncated: all.length > entries.length,
        };
      },
      () => ({ kind, entries: [], total_count: 0, is_truncated: false }),
    );
  },
};

async function listEntries(context: ToolContext, path: string, depth: number): Promise<ListedFile[]> {
  const result = await runScript(await context.sandbox(), listScript, [path, String(depth)], {
    maxOutputBytes: 4 * 2 ** 20,
    signal: context.signal,
  });
  if (result.code === 42) throw new UseError(`There is no directory ${path}.`);
  if (result.code === 43) throw new UseError(`${path} is a file, not a directory.`);
  if (result.code !== 0) throw new UseError(`The directory ${path} cannot be listed.`);
  return result.stdout
    .toString()
    .split("\n")
    .flatMap((line): ListedFile[] => {
      const [, mode, size, seconds, name] = /^([0-9a-f]+) (\d+) (\d+) \.\/(.+)$/.exec(line) ?? [];
      if (name === undefined) return [];
      const is_directory = (Number.parseInt(mode!, 16) & 0o170000) === 0o040000;
      const modified_time = isoTime(Number(seconds) * 1_000);
      const full = posix.join(path, name);
      return [
        {
          name: posix.basename(name),
          path: full,
          is_directory,
          size: is_directory ? 0 : Number(size),
          modified_time,
        },
      ];
    })
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}

function describe(path: string, entries: readonly ListedFile[], total: number): string {
  const cut = total > entries.length ? `, the first ${entries.length} are shown` : "";
  const lines = entries.map(
    (entry) => `${entry.path}${entry.is_directory ? "/" : `  ${entry.size} bytes`}\n`,
  );
  let text = `${path} has ${total} ${total === 1 ? "entry" : "entries"}${cut}:\n`;
  for (const line of lines) {
    if (text.length + line.length > maxResult) return `${text}… (cut; list a directory below it)\n`;
    text += line;
  }
  return text;
}
