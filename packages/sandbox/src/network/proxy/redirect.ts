import { parseProxyUrl, type Target } from "./target.ts";

/** Requests to addresses that begin with `from` (`http:`) go to `to` instead. */
export interface Redirect {
  from: string;
  to: string;
}

export type RequestTarget = Target & { path: string; secure: boolean };

/** The target of a request to a proxy. Undefined for texts other than an `http:` URL. */
export function findTarget(url: string, redirects: readonly Redirect[]): RequestTarget | undefined {
  const asked = parseProxyUrl(url);
  if (!asked) return undefined;
  const { host, port, path } = asked;
  const plain = `http://${host}${port === 80 ? "" : `:${port}`}${path}`;
  const redirect = redirects.find(({ from }) => plain.startsWith(from));
  if (!redirect) return { ...asked, secure: false };
  const secure = redirect.to.startsWith("https:");
  const { hostname, port: ownPort } = new URL(redirect.to);
  const base = redirect.to.slice(redirect.to.indexOf("/", secure ? 8 : 7));
  return {
    ...{ host: hostname.replace(/^\[|\]$/g, ""), port: Number(ownPort || (secure ? 443 : 80)) },
    ...{ path: base + plain.slice(redirect.from.length), secure },
  };
}
