import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { PlatformError } from "@sandpiper/core/errors";
import { isToken, type PortOfSandbox } from "./token.ts";

/** The two forms of a preview's address: a host name of its own, or a path under the server's. */
export type PreviewForm = "host" | "path";

/** What a request for a preview asks for, and how its address looks from outside. */
export interface PreviewTarget extends PortOfSandbox {
  form: PreviewForm;
  /** Path and query for the app, with a leading slash and without the link token. */
  appPath: string;
  /** Scheme, host and port as the client uses them. */
  origin: string;
  /** What stands before the app's path from outside: empty in the host form. */
  prefix: string;
  /** The part of `prefix` without the session token, with a final slash: the path of the app's cookies. */
  cookiePath: string;
  /** The app may see the outer host name, because programs take names under `localhost` for this machine. */
  localName: boolean;
  linkToken: string | undefined;
  /** From the path; the host form has it in a cookie. */
  sessionToken: string | undefined;
}

/** Name of the query parameter with a link token. */
export const tokenParameter = "sandpiper_token";

const pathForm = /^\/preview\/([^/?]*)(?:\/([^/?]*))?(\/[^?]*)?(\?.*)?$/;

/** The domain under which each preview has a host name: `localhost` for a server on this machine, the public name, or null where clients use an IP address. */
export function previewDomain(publicUrl: string): string | null {
  const host = new URL(publicUrl).hostname;
  if (host === "localhost" || host === "[::1]" || /^127\./.test(host)) return "localhost";
  return host.startsWith("[") || isIP(host) ? null : host;
}

/**
 * Whether a request is for a preview. Every request for a host name that looks like that of a preview is one, so that no route of the platform
 * answers there.
 */
export function isForPreview(request: IncomingMessage, publicUrl: string): boolean {
  return request.url!.startsWith("/preview/") || hostForm(request, publicUrl) !== undefined;
}

/**
 * Reads the address of a request for a preview; a `location` is where it should go instead. Throws PlatformError BadRequest for what no
 * client sends, and PathNotFound for ports and ids that cannot be.
 */
export function readTarget(
  request: IncomingMessage,
  publicUrl: string,
): PreviewTarget | { location: string } {
  const url = request.url!;
  const codings = request.headers["transfer-encoding"];
  if (!url.startsWith("/") || url.includes("#") || request.headersDistinct.host?.length !== 1) {
    throw new PlatformError(
      "BadRequest",
      "The request needs one Host header and a path that begins with a slash.",
    );
  }
  if (codings !== undefined && codings.toLowerCase() !== "chunked") {
    throw new PlatformError("BadRequest", "The body of a request may have no transfer coding but chunked.");
  }
  const own = new URL(publicUrl);
  const byHost = hostForm(request, publicUrl);
  if (byHost) {
    const protocol = byHost.domain === previewDomain(publicUrl) ? own.protocol : "http:";
    const address = `${protocol}//${byHost.host}`;
    if (!URL.canParse(address))
      throw new PlatformError("BadRequest", "The Host header of the request is malformed.");
    return {
      form: "host",
      ...portOfSandbox(byHost.sandboxId, byHost.port),
      origin: new URL(address).origin,
      prefix: "",
      cookiePath: "/",
      localName: /(^|\.)localhost$/.test(byHost.domain),
      sessionToken: undefined,
      ...withoutLinkToken(url),
    };
  }
  return pathTarget(url, own);
}

function pathTarget(url: string, own: URL): PreviewTarget | { location: string } {
  const [, idText = "", portText = "", rest, query = ""] = pathForm.exec(url) ?? [];
  const { sandboxId, port } = portOfSandbox(idText, portText);
  const base = own.pathname.replace(/\/$/, "");
  const [token, afterToken] = sessionOf(rest ?? "");
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
    ...withoutLinkToken(afterToken + query),
  };
}

/** Takes a first segment `~token` off a path. */
function sessionOf(path: string): [token: string | undefined, rest: string] {
  const found = /^\/~([^/]+)(.*)$/s.exec(path);
  return found && isToken(found[1]!) ? [found[1], found[2]!] : [undefined, path];
}

/** Splits a host name `<port>-<sandbox id>.<domain>`; undefined for other host names. */
function hostForm(
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

function portOfSandbox(sandboxId: string, portText: string): PortOfSandbox {
  const port = /^[1-9]\d{0,4}$/.test(portText) ? Number(portText) : 0;
  if (port >= 1 && port <= 65_535 && /^[a-z0-9-]{1,63}$/.test(sandboxId)) return { sandboxId, port };
  throw new PlatformError(
    "PathNotFound",
    "The address of a preview names a port from 1 to 65535 and the id of a sandbox.",
  );
}

/** The parameter goes as text, so that the rest of the query reaches the app byte for byte. */
function withoutLinkToken(url: string): { appPath: string; linkToken: string | undefined } {
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
