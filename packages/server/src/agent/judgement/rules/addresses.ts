/** Where an address leads. */
export type Reach = "own" | "metadata" | "private" | "outside";

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

/** Where a URL leads, a host alone too; undefined for a text that names no host. Numbers in any base are read as addresses, as clients do. */
export function reachOf(address: string): Reach | undefined {
  const text = address.length > 4_000 ? address.slice(0, 4_000) : address;
  const url = /^[a-z][a-z0-9+.-]{0,20}:\/\//i.test(text) ? text : `http://${text}`;
  // A scheme that is none of the web keeps its host as it is written.
  const parsed = URL.parse(url.replace(/^[a-z][a-z0-9+.-]{0,20}:\/\//i, "http://"));
  const host = parsed?.hostname
    .toLowerCase()
    .replace(/^\[|\]$/g, "")
    .replace(/\.$/, "");
  if (!host) return undefined;
  if (metadataHosts.has(host) || metadataAddresses.has(unmapped(host))) return "metadata";
  return isOwn(unmapped(host)) ? "own" : isPrivate(unmapped(host)) ? "private" : "outside";
}

/** An IPv4 address inside of an IPv6 one, as it is alone. */
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
  if (/^(?:10|127|0|192\.168|169\.254|172\.(?:1[6-9]|2\d|3[01])|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7]))\./.test(host))
    return /^\d{1,3}(?:\.\d{1,3}){3}$/.test(host);
  return /^(?:f[cd][0-9a-f]{2}|fe[89ab][0-9a-f]):/.test(host);
}

/** Whether data that is sent there leaves the machine and those beside it: names without a dot are services beside it. */
export function isOutside(address: string): boolean {
  const reach = reachOf(address);
  if (reach === undefined || reach === "own" || reach === "private") return false;
  const host = address.replace(/^[a-z][a-z0-9+.-]{0,20}:\/\//i, "").replace(/^[^/@]{0,500}@/, "");
  const bare = host.split(/[/:?#]/, 1)[0]!;
  return bare.includes(".") || bare.includes("$") || host.startsWith("[") || reach === "metadata";
}

/** Cloud metadata, wherever it stands in a text: also in code, and with the address as a number. */
export function namesMetadata(text: string): boolean {
  const word =
    /169\.254\.(?:169\.254|170\.(?:2|23))\b|metadata\.google\.internal|metadata\.goog\b|fd00:ec2::254|100\.100\.100\.200|instance-data\.ec2|\b2852039166\b|0xa9fea9fe|\b0?251\.0?376\.0?251\.0?376\b/i;
  return word.test(text) || (text.length < 500 && /^[a-z]+:\/\//i.test(text) && reachOf(text) === "metadata");
}
