/** Where a request wants to go. The host is in its one canonical form: lower case, punycode, no trailing dot, addresses in their usual spelling. */
export interface Target {
  /** A name or an address, IPv6 without brackets. */
  host: string;
  port: number;
}

const authorityPattern = /^(\[[0-9a-f:.]+\]|[^\s:/?#@[\]\\%]+):(\d{1,5})$/i;

/** Reads `host:port` as CONNECT has it. Undefined for anything else. */
export function parseAuthority(text: string): Target | undefined {
  const [, host, port] = authorityPattern.exec(text) ?? [];
  return host === undefined ? undefined : target(host, Number(port));
}

/** Reads a URL as a proxy gets it; only `http:` without user information. Undefined for anything else. */
export function parseProxyUrl(text: string): (Target & { path: string }) | undefined {
  const [, authority = "", path = ""] = /^http:\/\/([^/?#\\]+)([/?].*)?$/i.exec(text) ?? [];
  const found = parseAuthority(
    /:\d{1,5}$/.test(authority) && !authority.endsWith("]") ? authority : `${authority}:80`,
  );
  return found && { ...found, path: path.startsWith("/") ? path : `/${path}` };
}

/** The text of a target in URLs and in the `Host` header; the default port is left out. */
export function toAuthority({ host, port }: Target, defaultPort?: number): string {
  const name = host.includes(":") ? `[${host}]` : host;
  return port === defaultPort ? name : `${name}:${port}`;
}

function target(host: string, port: number): Target | undefined {
  if (port < 1 || port > 65_535) return undefined;
  const name = canonicalHost(host);
  return name === undefined ? undefined : { host: name, port };
}

/** A host in its canonical form, IPv6 without brackets. Undefined for what cannot be one. */
export function canonicalHost(text: string): string | undefined {
  const url = URL.parse(`http://${text}/`);
  if (!url || url.username || url.password || url.port || url.pathname !== "/" || url.search || url.hash)
    return undefined;
  const name = url.hostname.replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "");
  return name !== "" && name.length <= 253 ? name : undefined;
}
