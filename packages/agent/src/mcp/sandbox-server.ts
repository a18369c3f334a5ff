import { posix } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import type { SandboxSecret } from "@sandpiper/sandbox/network/sandbox-secret";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import { isCredential } from "./addresses.ts";
import type { ServerSpec } from "./server-spec.ts";
import { StdioTransport } from "./stdio-transport.ts";
import { expandVariables, findReferences } from "./variables.ts";

/** Shorter values are too common to be recognised as a secret. */
const minSecret = 6;

/** Prints the values of the named variables, each followed by NUL. */
const printScript = `for n; do eval "printf '%s\\\\0' \\"\\\${$n-}\\""; done`;

/** Starts a command server with placeholders. Throws McpFailed, and what `exec` throws. */
export async function startServer(
  { name, server }: ServerSpec,
  {
    sandbox,
    workingDir,
    secrets,
  }: { sandbox: Sandbox; workingDir: string; secrets: readonly SandboxSecret[] },
): Promise<{ transport: StdioTransport; hidden: string[] }> {
  const given = { words: commandWords(server), env: Object.entries(server.env ?? {}) };
  const texts = [...given.words, ...given.env.map(([, value]) => value)];
  const named = findReferences(texts);
  const used = secrets.filter(
    (secret) =>
      named.has(secret.name) || named.has(secret.variable) || texts.some((text) => holds(text, secret)),
  );
  const placeholders = await insideValues(sandbox, used);
  const missing = new Set<string>();
  const fill = (text: string) => {
    const expanded = expandVariables(
      text,
      (wanted) => {
        const secret = used.find((one) => one.name === wanted || one.variable === wanted);
        return secret && placeholders.get(secret.variable);
      },
      missing,
    );
    // The user also typed the secret's value here.
    return used.reduce((safe, secret) => {
      return holds(safe, secret)
        ? safe.replaceAll(secret.value, placeholders.get(secret.variable) ?? "")
        : safe;
    }, expanded);
  };
  const argv = given.words.map(fill);
  const env = Object.fromEntries(given.env.map(([key, value]) => [key, fill(value)]));
  const [unknown] = missing;
  if (unknown !== undefined)
    throw problem(
      `its configuration names \${${unknown}}, and there is no secret of that name that may enter the sandbox`,
    );
  if (
    Object.keys(env).some((key) => key === "" || key.includes("=")) ||
    [...argv, ...Object.entries(env).flat()].some((text) => text.includes("\0"))
  )
    throw problem("its command or environment holds what no process can be given");
  const cwd = server.cwd ? posix.resolve(workingDir, server.cwd) : workingDir;
  const process = await sandbox.exec({ argv, cwd, env });
  const hidden = given.env.flatMap(([key, value]) => (isCredential(key) ? [value] : []));
  return { transport: new StdioTransport(process), hidden };

  function problem(reason: string): PlatformError {
    return new PlatformError("McpServerNotStarted", { name, reason });
  }
}

/** The command and its arguments; a command line is split at spaces. */
function commandWords({ command, args }: ServerSpec["server"]): string[] {
  const line = command ?? "";
  return args && args.length > 0 ? [line, ...args] : line.trim().split(/\s+/);
}

function holds(text: string, { value }: SandboxSecret): boolean {
  return value.length >= minSecret && text.includes(value);
}

/** The placeholders of secrets in the sandbox, by variable; secrets without one are missing. */
async function insideValues(
  sandbox: Sandbox,
  secrets: readonly SandboxSecret[],
): Promise<Map<string, string>> {
  const names = secrets
    .map(({ variable }) => variable)
    .filter((variable) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(variable));
  if (names.length === 0) return new Map();
  const argv = [...(sandbox.shell ?? ["sh"]), "-c", printScript, "sh", ...names];
  const { stdout } = await runToEnd(
    sandbox,
    { argv, cwd: "/" },
    { timeoutMs: 10_000, maxOutputBytes: 1_048_576 },
  );
  const values = stdout.toString().split("\0");
  return new Map(
    names.flatMap((variable, index) => (values[index] ? [[variable, values[index]] as const] : [])),
  );
}
