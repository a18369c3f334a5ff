import { BlockList, isIP } from "node:net";
import { networkInterfaces } from "node:os";
import { PlatformError } from "../errors.ts";

/**
 * IPv4 ranges that are not public: private, shared, loopback, link-local (metadata), documentation,
 * benchmarks, multicast, reserved.
 */
const closed4 = [
  ...[
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
  ],
  ...[
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
  ],
  // A cloud's service for its virtual machines, at a public address.
  "168.63.129.16/32",
];
/** Only 2000::/3 is public; in it these are not: protocols and Teredo, documentation, 6to4. */
const closed6 = ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"];

const closed = parseRanges([...closed4, ...closed6]);
const global6 = parseRanges(["2000::/3"]);
/** The last 32 bits are an IPv4 address: IPv4-mapped, and the translators' well-known prefix. */
const embedding = parseRanges(["::ffff:0:0/96", "64:ff9b::/96"]);

/** Address ranges by CIDR (`10.1.0.0/16`, `fd00::/8`) or single addresses. Throws ConfigInvalid. */
export function parseRanges(texts: readonly string[]): BlockList {
  const list = new BlockList();
  for (const text of texts) {
    const [address = "", prefix] = text.split("/");
    const version = isIP(address);
    const whole = version === 6 ? 128 : 32;
    const bits = prefix === undefined ? whole : /^\d{1,3}$/.test(prefix) ? Number(prefix) : -1;
    try {
      list.addSubnet(address, bits, version === 6 ? "ipv6" : "ipv4");
    } catch (cause) {
      throw new PlatformError(
        "AddressRangeInvalid",
        { text },
        {
          cause,
        },
      );
    }
  }
  return list;
}

/**
 * Whether a connection for a user or a sandbox may go to this address (in the form of the resolver
 * or of a URL parser): a public address of another machine, or one of the `exempt` ranges.
 */
export function isReachable(address: string, exempt: BlockList): boolean {
  const version = isIP(address);
  if (version === 0 || address.includes("%")) return false;
  const plain = version === 6 ? (embedded4(address) ?? address) : address;
  const family = isIP(plain) === 6 ? "ipv6" : "ipv4";
  if (exempt.check(plain, family)) return true;
  if (family === "ipv6" && !global6.check(plain, family)) return false;
  return !closed.check(plain, family) && !ownAddresses().has(plain);
}

/** The IPv4 address that an IPv6 address embeds. */
function embedded4(address: string): string | undefined {
  return embedding.check(address, "ipv6") ? addressBytes(address).subarray(12).join(".") : undefined;
}

/** An address in network byte order: 4 or 16 bytes. */
export function addressBytes(address: string): Buffer {
  if (isIP(address) === 4) return Buffer.from(address.split(".").map(Number));
  // A URL parser normalises IPv6 addresses: hexadecimal groups, the longest run of zeros omitted.
  const [head = "", tail] = new URL(`http://[${address}]/`).hostname.slice(1, -1).split("::");
  const groups = (text = "") => (text === "" ? [] : text.split(":"));
  const zeros = Array<string>(8 - groups(head).length - groups(tail).length).fill("0");
  const all = [...groups(head), ...zeros, ...groups(tail)];
  return Buffer.from(all.map((group) => group.padStart(4, "0")).join(""), "hex");
}

let own: { at: number; addresses: Set<string> } | undefined;

/**
 * This machine's own addresses: a request to a public one would bypass its firewall. Cached for a
 * few seconds.
 */
function ownAddresses(): Set<string> {
  if (!own || Date.now() - own.at > 5_000) {
    const addresses = Object.values(networkInterfaces()).flatMap((list) =>
      (list ?? []).map(({ address }) => address),
    );
    own = { at: Date.now(), addresses: new Set(addresses) };
  }
  return own.addresses;
}
