import { join } from "node:path";
import { listEntries, readText } from "./files.ts";

/** Addresses of the indexes that pip of this machine uses: the configured ones, else those that pip itself has built in. */
export function findPipAddresses(env: Readonly<Record<string, string | undefined>>, etc = "/etc"): string[] {
  const home = env.HOME ?? "/root";
  const files = [
    join(etc, "pip.conf"),
    join(env.XDG_CONFIG_HOME ?? join(home, ".config"), "pip/pip.conf"),
    join(home, ".pip/pip.conf"),
    env.PIP_CONFIG_FILE ?? "",
  ];
  const configured = files.map(readText);
  const main = env.PIP_INDEX_URL ?? configured.flatMap((text) => parseValues(text, "index-url")).at(-1);
  const extra = [
    env.PIP_EXTRA_INDEX_URL ?? "",
    ...configured.flatMap((text) => parseValues(text, "extra-index-url")),
  ];
  return [
    ...(main === undefined ? findBuiltIn() : [main]),
    ...extra.flatMap((text) => text.split(/\s+/)),
  ].filter((address) => address !== "");
}

/** Values of a key of an ini file; a value goes on in indented lines. */
function parseValues(text: string, key: string): string[] {
  const found = text.matchAll(new RegExp(`^${key}[ \\t]*[=:]((?:.*)(?:\\n[ \\t]+\\S.*)*)`, "gm"));
  return [...found].flatMap(([, value]) => value!.trim().split(/\s+/));
}

/** The index, and the host of its files, that an installed pip uses where nothing is configured, out of its own source. */
function findBuiltIn(): string[] {
  const folders = [
    "/usr/lib/python3/dist-packages",
    ...listEntries("/usr/local/lib").flatMap((lib) => [
      join(lib, "site-packages"),
      join(lib, "dist-packages"),
    ]),
  ];
  for (const folder of folders) {
    const text = readText(join(folder, "pip/_internal/models/index.py"));
    const [, index, files] =
      /^PyPI = PackageIndex\(\s*"(https?:[^"]+)",\s*file_storage_domain="([^"]+)"/m.exec(text) ?? [];
    if (index) return [index, `https://${files}/`];
  }
  return [];
}
