import { realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { readText } from "./files.ts";

/** URLs of this machine's npm registries: the configured ones, else npm's built-in default. */
export function findNpmAddresses(env: Readonly<Record<string, string | undefined>>, etc = "/etc"): string[] {
  const files = [
    join(etc, "npmrc"),
    "/usr/etc/npmrc",
    "/usr/local/etc/npmrc",
    env.npm_config_globalconfig ?? "",
    env.npm_config_userconfig ?? join(env.HOME ?? "/root", ".npmrc"),
  ];
  const lines = files.flatMap((file) => readText(file).split("\n"));
  const settings = lines.flatMap((line) => {
    const [, key, value] = /^\s*((?:@[^:=\s]+:)?registry)\s*=\s*"?([^"\s]+)"?\s*$/.exec(line) ?? [];
    return key === undefined ? [] : [{ key, value: value! }];
  });
  const main =
    env.npm_config_registry ??
    env.NPM_CONFIG_REGISTRY ??
    settings.findLast(({ key }) => key === "registry")?.value;
  const scoped = settings.filter(({ key }) => key !== "registry").map(({ value }) => value);
  return [main ?? findBuiltIn(env.PATH) ?? "", ...scoped];
}

/** The default registry in the source of the installed npm. */
function findBuiltIn(path: string | undefined): string | undefined {
  for (const folder of [...(path ?? "").split(":"), "/usr/bin", "/usr/local/bin"]) {
    try {
      const program = realpathSync(join(folder, "npm"));
      const definitions = join(
        dirname(dirname(program)),
        "node_modules/@npmcli/config/lib/definitions/definitions.js",
      );
      const address = /registry: new Definition\('registry', \{\s*default: '(https?:[^']+)'/.exec(
        readText(definitions),
      )?.[1];
      if (address) return address;
    } catch {
      // No npm in this folder.
    }
  }
  return undefined;
}
