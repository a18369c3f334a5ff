import { PlatformError } from "@sandpiper/core/errors";
import type { NetworkPolicy } from "@sandpiper/sandbox/driver";
import { judgeMethod, judgeTarget, matchesHost } from "@sandpiper/sandbox/network/policy/policy";
import { canonicalHost } from "@sandpiper/sandbox/network/proxy/target";
import type { SandboxSecret } from "@sandpiper/sandbox/network/sandbox-secret";
import type { McpAuth, McpServer } from "@sandpiper/wire";
import { credentialHeaders } from "./headers.ts";
import type { ServerSpec } from "./server-spec.ts";
import { expandVariables } from "./variables.ts";

export interface RemoteAddress {
  url: URL;
  /** Names in lower case. */
  headers: Record<string, string>;
  /** Whether a secret is sent. */
  secret: boolean;
  /** Texts to hide in the server's answers. */
  hidden: string[];
}

/**
 * The URL and headers of a remote server with secrets filled in. A user's server needs a network; a
 * plugin's must also pass the sandbox's policy. A secret only goes to its allowed hosts, and a
 * `withheld` configuration gets none. Throws McpFailed.
 */
export function resolveAddress(
  { name, server, from, withheld }: ServerSpec,
  { secrets, policy }: { secrets: readonly SandboxSecret[]; policy: NetworkPolicy },
): RemoteAddress {
  const used = new Set<SandboxSecret>();
  const missing = new Set<string>();
  const fill = (text: string) =>
    expandVariables(
      text,
      (wanted) => {
        const secret = secrets.find((one) => one.name === wanted || one.variable === wanted);
        if (secret) used.add(secret);
        return secret?.value;
      },
      missing,
    );
  const text = fill(server.url ?? "");
  const headers = credentialHeaders({
    headers: mapValues(server.headers ?? {}, fill),
    auth: fillAuth(server.auth, fill),
  });
  if (withheld !== undefined && used.size > 0) throw problem(withheld);
  const [unknown] = missing;
  if (unknown !== undefined)
    throw problem(`Its configuration names \${${unknown}}, and there is no secret of that name.`);
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol))
    throw problem("Its url is not an address that begins with https:// or http://.");
  checkPolicy(url, policy, from);
  for (const secret of used)
    if (!mayReceive(secret, url, policy, from))
      throw problem(
        `The secret ${secret.name} may not go to ${url.hostname}: add the host to those of the secret.`,
      );
  const values = [...used].flatMap(({ value, outgoingValue = "" }) => [value, outgoingValue]);
  const hidden = [
    ...values,
    ...Object.entries(headers).flatMap(([key, value]) => (isCredential(key) ? [stripScheme(value)] : [])),
  ];
  return { url, headers, secret: used.size > 0 || Object.keys(headers).some(isCredential), hidden };

  function problem(reason: string): PlatformError {
    return new PlatformError("McpServerUnusable", { name, reason });
  }
  function checkPolicy(address: URL, { mode }: NetworkPolicy, origin: ServerSpec["from"]): void {
    if (mode === "none") throw problem("The network of this sandbox is off.");
    const target = toTarget(address);
    const refusal = judgeTarget(policy, target).refusal ?? judgeMethod(policy, target, "POST");
    if (origin === "plugin" && refusal) throw problem(refusal);
  }
}

/** Whether the name of a header or variable implies a secret value. */
export function isCredential(name: string): boolean {
  return /key|token|secret|pass|auth|cred|cookie|session/i.test(name);
}

function fillAuth(auth: McpServer["auth"], fill: (text: string) => string): McpAuth | undefined {
  if (!auth || auth.strategy === "oauth2") return auth ?? undefined;
  return Object.fromEntries(
    Object.entries(auth).map(([key, value]) => {
      if (key === "headers" && value) return [key, mapValues(value as Record<string, string>, fill)];
      return [key, typeof value === "string" && key !== "strategy" ? fill(value) : value];
    }),
  ) as McpAuth;
}

function mapValues(texts: Record<string, string>, change: (text: string) => string): Record<string, string> {
  return Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, change(text)]));
}

/** A secret with hosts goes nowhere else; others as the user says or the proxy allows. */
function mayReceive(
  { hosts }: SandboxSecret,
  url: URL,
  policy: NetworkPolicy,
  from: ServerSpec["from"],
): boolean {
  const { host, port } = toTarget(url);
  if (from === "user") return !hosts || hosts.some((pattern) => matchesHost(pattern, host));
  // As the egress proxy does for the sandbox: never over plain HTTP.
  if (url.protocol !== "https:") return false;
  if (hosts) return hosts.some((pattern) => matchesHost(pattern, host));
  return policy.mode === "allowlist" && port === 443;
}

export function toTarget(url: URL): { host: string; port: number } {
  const port = Number(url.port || (url.protocol === "https:" ? 443 : 80));
  return { host: canonicalHost(url.hostname) ?? url.hostname, port };
}

/** Strips `Bearer` or `Basic`. */
function stripScheme(value: string): string {
  return value.replace(/^(?:bearer|basic)\s+/i, "");
}
