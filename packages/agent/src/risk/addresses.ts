import type { RiskFinding } from "./findings.ts";
import { isCredentialPath } from "./paths.ts";

/** Where an address leads. */
type Reach = "own" | "metadata" | "private" | "outside";

const metadataHosts = new Set([
  "metadata",
  "metadata.google.internal",
  "metadata.goog",
  "instance-data",
  "instance-data.ec2.internal",
]);
const metadataAddresses = new Set([
  "169.254.169.254",
  "169.254.170.2",
  "169.254.170.23",
  "100.100.100.200",
  "192.0.0.192",
  "fd00:ec2::254",
]);

/** Where a URL or host leads; undefined without a host. Reads numbers in any base. */
function reachOf(address: string): Reach | undefined {
  const text = address.length > 4_000 ? address.slice(0, 4_000) : address;
  const url = /^[a-z][a-z0-9+.-]{0,20}:\/\//i.test(text) ? text : `http://${text}`;
  // With the scheme http every host is normalised.
  const parsed = URL.parse(url.replace(/^[a-z][a-z0-9+.-]{0,20}:\/\//i, "http://"));
  const host = parsed?.hostname
    .toLowerCase()
    .replace(/^\[|\]$/g, "")
    .replace(/\.$/, "");
  if (!host) return undefined;
  if (metadataHosts.has(host) || metadataAddresses.has(unmapped(host))) return "metadata";
  return isOwn(unmapped(host)) ? "own" : isPrivate(unmapped(host)) ? "private" : "outside";
}

/** The IPv4 address of an IPv6 one that contains it, else the host itself. */
function unmapped(host: string): string {
  const found = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(host);
  if (!found) return host;
  const [high, low] = [Number.parseInt(found[1]!, 16), Number.parseInt(found[2]!, 16)];
  return [high >> 8, high & 255, low >> 8, low & 255].join(".");
}

function isOwn(host: string): boolean {
  return /^(?:localhost|.{1,200}\.localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|::1?)$/.test(host);
}

function isPrivate(host: string): boolean {
  if (
    /^(?:10|127|0|192\.168|169\.254|172\.(?:1[6-9]|2\d|3[01])|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7]))\./.test(
      host,
    )
  )
    return /^\d{1,3}(?:\.\d{1,3}){3}$/.test(host);
  return /^(?:f[cd][0-9a-f]{2}|fe[89ab][0-9a-f]):/.test(host);
}

/** Whether an address is outside the private network; a name without a dot is a service in it. */
export function isOutside(address: string): boolean {
  const reach = reachOf(address);
  if (reach === undefined || reach === "own" || reach === "private") return false;
  const host = address.replace(/^[a-z][a-z0-9+.-]{0,20}:\/\//i, "").replace(/^[^/@]{0,500}@/, "");
  const bare = host.split(/[/:?#]/, 1)[0]!;
  return bare.includes(".") || bare.includes("$") || host.startsWith("[") || reach === "metadata";
}

/** Whether a text contains the address of a cloud's metadata service, also as a number. */
export function namesMetadata(text: string): boolean {
  const word =
    /169\.254\.(?:169\.254|170\.(?:2|23))\b|metadata\.google\.internal|metadata\.goog\b|fd00:ec2::254|100\.100\.100\.200|instance-data\.ec2|\b2852039166\b|0xa9fea9fe|\b0?251\.0?376\.0?251\.0?376\b/i;
  return word.test(text) || (text.length < 500 && /^[a-z]+:\/\//i.test(text) && reachOf(text) === "metadata");
}

/** What the rules find in an address that the browser opens. */
export function judgeAddress(address: string): RiskFinding[] {
  const text = address.trim().slice(0, 100_000);
  if (/^file:/i.test(text))
    return isCredentialPath(decoded(URL.parse(text)?.pathname ?? "")) ? ["read-credentials"] : [];
  const url = URL.parse(
    /^[a-z][a-z0-9+.-]{0,20}:/i.test(text) && !/^[\w.-]{1,200}:\d/.test(text) ? text : `http://${text}`,
  );
  if (!url || !/^(?:https?|wss?|ftp):$/.test(url.protocol)) return [];
  const reach = reachOf(url.host);
  if (reach === "metadata") return ["read-credentials", "private-address"];
  return reach === "private" ? ["private-address"] : [];
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
