import { join } from "node:path";
import { readText } from "./files.ts";

const builtIn = "https://registry.npmjs.org/";

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
  return [main ?? builtIn, ...scoped];
}
