/** The host is canonical: lower case, punycode, no trailing dot, normalised addresses. */
export interface Target {
  /** A name or an address, IPv6 without brackets. */
  host: string;
  port: number;
}

const authorityPattern = /^(\[[0-9a-f:.]+\]|[^\s:/?#@[\]\\%]+):(\d{1,5})$/i;

/** Parses the `host:port` of CONNECT. Undefined for other texts. */
export function parseAuthority(text: string): Target | undefined {
  const [, host, port] = authorityPattern.exec(text) ?? [];
  return host === undefined ? undefined : target(host, Number(port));
}

/** Parses an `http:` URL without user information. Undefined for other texts. */
export function parseProxyUrl(text: string): (Target & { path: string }) | undefined {
  const [, authority = "", path = ""] = /^http:\/\/([^/?#\\]+)([/?].*)?$/i.exec(text) ?? [];
  const found = parseAuthority(
    /:\d{1,5}$/.test(authority) && !authority.endsWith("]") ? authority : `${authority}:80`,
  );
  return found && { ...found, path: path.startsWith("/") ? path : `/${path}` };
}

/** A target in URLs and the `Host` header, without the default port. */
export function toAuthority({ host, port }: Target, defaultPort?: number): string {
  const name = host.includes(":") ? `[${host}]` : host;
  return port === defaultPort ? name : `${name}:${port}`;
}

function target(host: string, port: number): Target | undefined {
  if (port < 1 || port > 65_535) return undefined;
  const name = canonicalHost(host);
  return name === undefined ? undefined : { host: name, port };
}

/** The canonical form of a host, IPv6 without brackets. Undefined for an invalid host. */
export function canonicalHost(text: string): string | undefined {
  const url = URL.parse(`http://${text}/`);
  if (!url || url.username || url.password || url.port || url.pathname !== "/" || url.search || url.hash)
    return undefined;
  const name = url.hostname.replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "");
  return name !== "" && name.length <= 253 ? name : undefined;
}
