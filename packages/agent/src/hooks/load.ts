import { trimTail } from "@sandpiper/core/trim";
import { type CommandRunner, runScript } from "@sandpiper/sandbox/files/files";
import { emitFunction, readRecords } from "../skills/file-records.ts";
import { describeHooksFault, type HookConfig, mergeHookConfigs, parseHookConfig } from "./config.ts";

/** Bytes of a hooks file, and time to read all, ms. */
const maxBytes = 512 * 1024;
const timeoutMs = 20_000;

const maxProblems = 10;

/** Arguments: working folder, byte limit, plugin folders. The project's file wins. */
const findScript = `
work=$1 LIMIT=$2; shift 2
export LIMIT
${emitFunction}
kind=project
for folder in "$work" "$HOME"; do
  [ -n "$folder" ] && [ -f "$folder/.openhands/hooks.json" ] || continue
  emit -L "$folder/.openhands/hooks.json" -maxdepth 0
  break
done
kind=plugin
for plugin; do
  [ -f "$plugin/hooks/hooks.json" ] && emit -L "$plugin/hooks/hooks.json" -maxdepth 0
done
exit 0`;

/** Hooks of a sandbox, and sentences about problems. */
export interface LoadedHooks {
  config: HookConfig;
  problems: string[];
}

/**
 * Loads the project's hooks (`.openhands/hooks.json` of the working folder, else of the home
 * folder), then those of plugins (`hooks/hooks.json`), in one command. Throws what `exec` throws.
 */
export async function loadHooks(
  sandbox: CommandRunner,
  { workingDir, plugins = [] }: { workingDir: string | undefined; plugins?: readonly string[] },
): Promise<LoadedHooks> {
  const args = [trimTail(workingDir ?? "", "/"), String(maxBytes + 1), ...plugins];
  const { stdout } = await runScript(sandbox, findScript, args, { timeoutMs, maxOutputBytes: 20 * maxBytes });
  const configs: HookConfig[] = [];
  const problems: string[] = [];
  for (const { kind, path, content } of readRecords(stdout)) {
    const plugin = kind === "plugin" ? path.slice(0, -"/hooks/hooks.json".length) : undefined;
    const isTooLong = Buffer.byteLength(content) > maxBytes;
    const report = (sentence: string) =>
      problems.length < maxProblems && problems.push(`${path}: ${sentence}`);
    const config = isTooLong ? undefined : parseHookConfig(content, plugin, report);
    if (config) configs.push(config);
    else
      problems.push(
        `The hooks in ${path} are not run: the file is ${isTooLong ? `longer than ${maxBytes / 1024} KiB` : describeHooksFault(content)}.`,
      );
  }
  return { config: mergeHookConfigs(configs), problems };
}
