import { posix } from "node:path";
import { loadAllSkills } from "@sandpiper/agent/skills/load";
import { PlatformError } from "@sandpiper/core/errors";
import { isObject } from "@sandpiper/core/is-object";
import { type CommandRunner, readFile, runScript, stat } from "@sandpiper/sandbox/files/files";
import type { FetchPluginResponse } from "@sandpiper/wire";
import { lentPrefix } from "../../users/lent-secrets.ts";
import type { Plugin } from "./plugins.ts";

/** Maximum size of a manifest, bytes, and its depth. */
const maxBytes = 65_536;
const maxDepth = 20;

const manifestFiles = [".plugin/plugin.json", ".claude-plugin/plugin.json"];

/** Prints the commit, and removes the setting of a login that has ended. */
const commitScript = `
cd -- "$1" || exit 0
git config --unset-all "credential.$2.helper" ${lentPrefix}
git rev-parse --verify HEAD`;

/** Reads what a fetched plugin is, without running any of it. Throws InvalidParameter. */
export async function describePlugin(
  sandbox: CommandRunner,
  { repository, path }: Plugin,
  clone: string,
): Promise<Omit<FetchPluginResponse, "source" | "repo_path">> {
  const folder = posix.join(clone, path).replace(/\/$/, "");
  if ((await stat(sandbox, folder))?.kind !== "directory")
    throw new PlatformError("PluginFolderMissing", { name: repository.fullName, path });
  const { origin } = new URL(repository.url);
  const limits = { timeoutMs: 10_000, maxOutputBytes: 1_000 };
  const { stdout } = await runScript(sandbox, commitScript, [clone, origin], limits);
  const found = await loadAllSkills(sandbox, { workingDir: folder, plugins: [folder] });
  const names = (...places: string[]) => {
    const own = found.filter(({ location }) =>
      places.some((place) => location?.startsWith(posix.join(folder, place))),
    );
    return [...new Set(own.map(({ name }) => name))].sort();
  };
  return {
    path: folder,
    resolved_ref: /^[0-9a-f]{40,64}$/m.exec(stdout.toString())?.[0] ?? null,
    manifest: (await readManifest(sandbox, folder)) ?? {
      name: path ? posix.basename(folder) : repository.folder,
    },
    skills: names("skills/", "SKILL.md"),
    commands: names("commands/"),
  };
}

async function readManifest(
  sandbox: CommandRunner,
  folder: string,
): Promise<Record<string, unknown> | undefined> {
  for (const name of manifestFiles) {
    const file = await readFile(sandbox, posix.join(folder, name), { maxBytes });
    if (file.kind === "missing") continue;
    if (file.kind === "too_large") throw invalid(`longer than ${maxBytes / 1024} KiB`);
    if (file.kind !== "file") throw invalid("not a readable file");
    return parseManifest(file.content.toString());
  }
  return undefined;
}

/** Throws InvalidParameter. */
export function parseManifest(text: string): Record<string, unknown> {
  let manifest: unknown;
  try {
    manifest = JSON.parse(text);
  } catch {
    throw invalid("not JSON");
  }
  if (!isObject(manifest)) throw invalid("not a JSON object");
  if (isDeeper(manifest, maxDepth)) throw invalid(`nested more than ${maxDepth} times`);
  return manifest;
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((one) => isDeeper(one, levels - 1));
}

function invalid(reason: string): PlatformError {
  return new PlatformError("PluginManifestInvalid", { reason });
}
