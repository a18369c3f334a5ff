import { join } from "node:path";
import { listEntries, readText } from "./files.ts";

/** URLs of this machine's pip indexes: the configured ones, else pip's built-in defaults. */
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

/** Values of a key in an ini file; indented lines continue a value. */
function parseValues(text: string, key: string): string[] {
  const found = text.matchAll(new RegExp(`^${key}[ \\t]*[=:]((?:.*)(?:\\n[ \\t]+\\S.*)*)`, "gm"));
  return [...found].flatMap(([, value]) => value!.trim().split(/\s+/));
}

/** The default index and its file host in the source of the installed pip. */
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
