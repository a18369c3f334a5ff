import { join } from "node:path";
import { readText } from "./files.ts";

/** The default index and its file host. */
const builtIn = ["https://pypi.org/simple", "https://files.pythonhosted.org/"];

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
  return [...(main === undefined ? builtIn : [main]), ...extra.flatMap((text) => text.split(/\s+/))].filter(
    (address) => address !== "",
  );
}

/** Values of a key in an ini file; indented lines continue a value. */
function parseValues(text: string, key: string): string[] {
  const found = text.matchAll(new RegExp(`^${key}[ \\t]*[=:]((?:.*)(?:\\n[ \\t]+\\S.*)*)`, "gm"));
  return [...found].flatMap(([, value]) => value!.trim().split(/\s+/));
}
