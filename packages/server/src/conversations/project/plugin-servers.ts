import { posix } from "node:path";
import type { CommandRunner } from "@sandpiper/sandbox/files/files";
import { runToEnd } from "@sandpiper/sandbox/shell/run";

/** Maximum size of a `.mcp.json`, bytes. */
const maxBytes = 262_144;

const printScript = 'head -c "$2" -- "$1/.mcp.json" 2>/dev/null || :';

/** The MCP servers in the `.mcp.json` files of plugins; the first server of a name wins. */
export async function loadPluginServers(
  sandbox: CommandRunner,
  folders: readonly string[],
): Promise<Record<string, unknown>> {
  const found: Record<string, unknown> = {};
  for (const folder of folders) {
    const argv = [...(sandbox.shell ?? ["sh"]), "-c", printScript, "sh", folder, String(maxBytes)];
    const limits = { timeoutMs: 10_000, maxOutputBytes: maxBytes };
    const { stdout } = await runToEnd(sandbox, { argv, cwd: "/" }, limits);
    for (const [name, server] of Object.entries(parseServersFile(stdout.toString(), folder)))
      if (!Object.hasOwn(found, name)) found[name] = server;
  }
  return found;
}

function parseServersFile(text: string, folder: string): Record<string, unknown> {
  try {
    // Files refer to the plugin's folder by a variable.
    const root = JSON.stringify(posix.normalize(folder)).slice(1, -1);
    const json = text.replaceAll(/\$\{(?:CLAUDE_|OPENHANDS_)?PLUGIN_ROOT\}/g, () => root);
    const file = JSON.parse(json) as Record<string, unknown>;
    const servers = file.mcpServers ?? file;
    return typeof servers === "object" && servers !== null && !Array.isArray(servers)
      ? (servers as Record<string, unknown>)
      : {};
  } catch {
    return {};
  }
}
