import { Resolver } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { isIP } from "node:net";

/** Resolves a name to addresses; an unknown name gives an empty list or an error. */
export type Resolve = (host: string) => Promise<string[]>;

export interface ResolveOptions {
  /** Addresses of name servers, with or without a port; default: those of the machine. */
  servers?: readonly string[];
  /** Time for the first try, ms; the second and last one has twice as much. */
  timeoutMs?: number;
}

const defaultTimeoutMs = 3_000;
/** Addresses of a name that count; a hostile name server may send thousands. */
const maxAddresses = 64;

/**
 * Resolves through the hosts file and the name servers. The C library's resolver would block a
 * thread of the pool while a name server, perhaps of an attacker's choice, is silent.
 */
export function systemResolve({ servers, timeoutMs = defaultTimeoutMs }: ResolveOptions = {}): Resolve {
  const resolver = new Resolver({ timeout: timeoutMs, tries: 2 });
  if (servers) resolver.setServers(servers);
  return async (host) => {
    const known = await fromHostsFile(host);
    if (known.length > 0) return known;
    const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    const found = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
    const failed = answers.find((answer) => answer.status === "rejected");
    if (found.length === 0 && failed) throw failed.reason;
    return found.slice(0, maxAddresses);
  };
}

async function fromHostsFile(host: string): Promise<string[]> {
  const text = await readFile("/etc/hosts", "utf8").catch(() => "");
  return text.split("\n").flatMap((line) => {
    const [address = "", ...names] = line.replace(/#.*/, "").trim().toLowerCase().split(/\s+/);
    return isIP(address) && names.includes(host) ? [address] : [];
  });
}
