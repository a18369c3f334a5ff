import { createHash } from "node:crypto";
import { toolRegistry } from "../tools/registry.ts";

/** Longest tool name that every provider accepts. */
const maxLength = 64;

/**
 * Names MCP tools for the model: their own name in portable letters, prefixed with the server when
 * taken. A name stays with its tool, so that a call never reaches another one.
 */
export class ToolNames {
  /** Owner by name. */
  readonly #owners = new Map<string, string>();
  readonly #names = new Map<string, string>();

  /** `reserved` are the names of other tools of the conversation. */
  get(server: string, tool: string, reserved: ReadonlySet<string>): string {
    const isTaken = (name: string) => reserved.has(name) || toolRegistry.reservedNames.has(name);
    const owner = JSON.stringify([server, tool]);
    const known = this.#names.get(owner);
    if (known !== undefined && !isTaken(known)) return known;
    const plain = fit(tool);
    const long = fit(`${fit(server)}_${plain}`);
    const hash = createHash("sha256").update(owner).digest("hex").slice(0, 8);
    const free = [plain, long, fit(`${long.slice(0, maxLength - 9)}_${hash}`)].find(
      (name) => !isTaken(name) && (this.#owners.get(name) ?? owner) === owner,
    );
    const name = free ?? `mcp_${hash}`;
    this.#owners.set(name, owner);
    this.#names.set(owner, name);
    return name;
  }
}

/** A name that begins with a letter, of letters, digits, `_` and `-`. */
function fit(text: string): string {
  const safe = text.replace(/[^A-Za-z0-9_-]+/g, "_").replace(/^[^A-Za-z]+/, "");
  if (safe === "") return `tool_${createHash("sha256").update(text).digest("hex").slice(0, 8)}`;
  if (safe.length <= maxLength) return safe;
  return `${safe.slice(0, maxLength - 9)}_${createHash("sha256").update(text).digest("hex").slice(0, 8)}`;
}
