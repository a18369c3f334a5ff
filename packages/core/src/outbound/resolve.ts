import { Resolver } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { isIP } from "node:net";

/** Gives the addresses of a name; an empty list or an error where there are none. */
export type Resolve = (host: string) => Promise<string[]>;

/**
 * Resolves by the machine's hosts file and its name servers. Not by the C library: that would take a thread of the server's pool for as long as a
 * name server of a stranger's choice is silent.
 */
export function systemResolve(): Resolve {
  const resolver = new Resolver({ timeout: 3_000, tries: 2 });
  return async (host) => {
    const known = await fromHostsFile(host);
    if (known.length > 0) return known;
    const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    const found = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
    const failed = answers.find((answer) => answer.status === "rejected");
    if (found.length === 0 && failed) throw failed.reason;
    return found;
  };
}

async function fromHostsFile(host: string): Promise<string[]> {
  const text = await readFile("/etc/hosts", "utf8").catch(() => "");
  return text.split("\n").flatMap((line) => {
    const [address = "", ...names] = line.replace(/#.*/, "").trim().toLowerCase().split(/\s+/);
    return isIP(address) && names.includes(host) ? [address] : [];
  });
}
