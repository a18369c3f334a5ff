import { posix } from "node:path";
import { isObject } from "@sandpiper/core/is-object";
import { findJsonFault } from "@sandpiper/core/json-fault";
import type { CommandRunner } from "@sandpiper/sandbox/files/files";
import { runToEnd } from "@sandpiper/sandbox/shell/run";

/** Maximum size of a `.mcp.json`, bytes. */
const maxBytes = 262_144;

/** One byte more shows that a file is too long. */
const printScript = 'head -c "$2" -- "$1/.mcp.json" 2>/dev/null || :';

/**
 * The MCP servers in the `.mcp.json` files of plugins; the first server of a name wins. `report`
 * gets a sentence about each file that cannot be read.
 */
export async function loadPluginServers(
  sandbox: CommandRunner,
  folders: readonly string[],
  report: (sentence: string) => void = () => {},
): Promise<Record<string, unknown>> {
  const found: Record<string, unknown> = {};
  for (const folder of folders) {
    const argv = [...(sandbox.shell ?? ["sh"]), "-c", printScript, "sh", folder, String(maxBytes + 1)];
    const limits = { timeoutMs: 10_000, maxOutputBytes: maxBytes + 1 };
    const { stdout } = await runToEnd(sandbox, { argv, cwd: "/" }, limits);
    const servers = parseServersFile(stdout.toString(), folder, report);
    for (const [name, server] of Object.entries(servers))
      if (!Object.hasOwn(found, name)) found[name] = server;
  }
  return found;
}

function parseServersFile(
  text: string,
  folder: string,
  report: (sentence: string) => void,
): Record<string, unknown> {
  const fail = (reason: string) => {
    report(`The MCP servers in ${posix.join(folder, ".mcp.json")} are not used: the file is ${reason}.`);
    return {};
  };
  if (text === "") return {};
  if (Buffer.byteLength(text) > maxBytes) return fail(`longer than ${maxBytes / 1024} KiB`);
  const place = findJsonFault(text);
  if (place !== undefined) return fail(`not JSON (${place})`);
  // Files refer to the plugin's folder by a variable.
  const root = JSON.stringify(posix.normalize(folder)).slice(1, -1);
  const file: unknown = JSON.parse(text.replaceAll(/\$\{(?:CLAUDE_|OPENHANDS_)?PLUGIN_ROOT\}/g, () => root));
  const servers = isObject(file) ? (file.mcpServers ?? file) : file;
  return isObject(servers) ? servers : fail("not a JSON object of servers");
}
