import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { PlatformError } from "@sandpiper/core/errors";
import { isToken, type SandboxPort } from "../../users/sandbox-grants.ts";

/** A preview has its own host name, or a path on the server's host. */
export type PreviewForm = "host" | "path";

/** A preview request's target, and its URL as seen by the client. */
export interface PreviewTarget extends SandboxPort {
  form: PreviewForm;
  /** Path and query for the app, with a leading slash and without the link token. */
  appPath: string;
  /** Scheme, host and port as the client uses them. */
  origin: string;
  /** The client's path before the app's path; empty in the host form. */
  prefix: string;
  /** `prefix` without the session token, with a final slash: the path of the app's cookies. */
  cookiePath: string;
  /** The app may see the outer host name, because programs accept names under `localhost`. */
  localName: boolean;
  linkToken: string | undefined;
  /** From the path; in the host form the token is in a cookie. */
  sessionToken: string | undefined;
}

/** Query parameter with a link token. */
export const tokenParameter = "sandpiper_token";

const pathForm = /^\/preview\/([^/?]*)(?:\/([^/?]*))?(\/[^?]*)?(\?.*)?$/;

/**
 * The domain of preview host names: `localhost` for a local server, the public name, or null if
 * clients use an IP address.
 */
export function getPreviewDomain(publicUrl: string): string | null {
  const host = new URL(publicUrl).hostname;
  if (host === "localhost" || host === "[::1]" || /^127\./.test(host)) return "localhost";
  return host.startsWith("[") || isIP(host) ? null : host;
}

/**
 * Whether a request is for a preview. Every host name of a preview's form counts, so that no
 * platform route responds there.
 */
export function isForPreview(request: IncomingMessage, publicUrl: string): boolean {
  return request.url!.startsWith("/preview/") || parseHostForm(request, publicUrl) !== undefined;
}

/**
 * Parses the URL of a preview request, or returns a `location` to redirect to. Throws PlatformError
 * BadRequest for malformed requests, and PathNotFound for invalid ports and ids.
 */
export function parsePreviewTarget(
  request: IncomingMessage,
  publicUrl: string,
): PreviewTarget | { location: string } {
  const url = request.url!;
  const codings = request.headers["transfer-encoding"];
  if (!url.startsWith("/") || url.includes("#") || request.headersDistinct.host?.length !== 1) {
    throw new PlatformError("PreviewRequestInvalid");
  }
  if (codings !== undefined && codings.toLowerCase() !== "chunked") {
    throw new PlatformError("TransferCodingUnsupported");
  }
  const own = new URL(publicUrl);
  const byHost = parseHostForm(request, publicUrl);
  if (byHost) {
    const protocol = byHost.domain === getPreviewDomain(publicUrl) ? own.protocol : "http:";
    const address = `${protocol}//${byHost.host}`;
    if (!URL.canParse(address)) throw new PlatformError("HostHeaderInvalid");
    return {
      form: "host",
      ...parseSandboxPort(byHost.sandboxId, byHost.port),
      origin: new URL(address).origin,
      prefix: "",
      cookiePath: "/",
      localName: /(^|\.)localhost$/.test(byHost.domain),
      sessionToken: undefined,
      ...splitLinkToken(url),
    };
  }
  return parsePathForm(url, own);
}

function parsePathForm(url: string, own: URL): PreviewTarget | { location: string } {
  const [, idText = "", portText = "", rest, query = ""] = pathForm.exec(url) ?? [];
  const { sandboxId, port } = parseSandboxPort(idText, portText);
  const base = own.pathname.replace(/\/$/, "");
  const [token, afterToken] = splitSessionToken(rest ?? "");
  const cookiePath = `${base}/preview/${sandboxId}/${port}/`;
  const prefix = cookiePath.slice(0, -1) + (token === undefined ? "" : `/~${token}`);
  if (afterToken === "") return { location: `${prefix}/${query}` };
  return {
    form: "path",
    sandboxId,
    port,
    origin: own.origin,
    prefix,
    cookiePath,
    localName: false,
    sessionToken: token,
    ...splitLinkToken(afterToken + query),
  };
}

/** Splits a first segment `~token` off a path. */
function splitSessionToken(path: string): [token: string | undefined, rest: string] {
  const found = /^\/~([^/]+)(.*)/s.exec(path);
  return found && isToken(found[1]!) ? [found[1], found[2]!] : [undefined, path];
}

/** Splits a host name `<port>-<sandbox id>.<domain>`; undefined for other host names. */
function parseHostForm(
  { headers }: IncomingMessage,
  publicUrl: string,
): { port: string; sandboxId: string; domain: string; host: string } | undefined {
  const host = (headers.host ?? "").toLowerCase();
  if (!/^\d+-/.test(host)) return undefined;
  const name = host.replace(/:\d*$/, "").replace(/\.$/, "");
  const ownName = new URL(publicUrl).hostname;
  if (name === ownName) return undefined;
  const domain = [ownName, "localhost"].find((one) => name.endsWith(`.${one}`));
  const label = domain === undefined ? null : /^(\d+)-(.*)$/s.exec(name.slice(0, -domain.length - 1));
  return label ? { port: label[1]!, sandboxId: label[2]!, domain: domain!, host } : undefined;
}

function parseSandboxPort(sandboxId: string, portText: string): SandboxPort {
  const port = /^[1-9]\d{0,4}$/.test(portText) ? Number(portText) : 0;
  if (port >= 1 && port <= 65_535 && /^[a-z0-9-]{1,63}$/.test(sandboxId)) return { sandboxId, port };
  throw new PlatformError("PreviewAddressInvalid");
}

/** Removes the parameter textually, so that the app gets the rest of the query unchanged. */
function splitLinkToken(url: string): { appPath: string; linkToken: string | undefined } {
  const start = url.indexOf("?");
  if (start < 0) return { appPath: url, linkToken: undefined };
  const pairs = url.slice(start + 1).split("&");
  const isLink = (pair: string) => pair.startsWith(`${tokenParameter}=`);
  const link = pairs.find(isLink);
  if (link === undefined) return { appPath: url, linkToken: undefined };
  const rest = pairs.filter((pair) => !isLink(pair)).join("&");
  return {
    appPath: url.slice(0, start) + (rest && `?${rest}`),
    linkToken: link.slice(tokenParameter.length + 1),
  };
}
