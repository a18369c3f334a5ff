import { makeToken, type SandboxGrant } from "../../users/sandbox-grants.ts";
import { getPreviewDomain, tokenParameter } from "./address.ts";

/**
 * URLs that open a sandbox's port in a browser until `expires` (ms since the epoch). If clients use
 * an IP address, previews have no host names and both URLs have the path form.
 */
export function makePreviewLinks(
  grant: SandboxGrant,
  port: number,
  publicUrl: string,
  expires: number,
): { url: string; pathUrl: string } {
  const query = `?${tokenParameter}=${makeToken(grant, port, "link", expires)}`;
  const { row } = grant;
  const pathUrl = `${publicUrl}/preview/${row.id}/${port}/${query}`;
  const domain = getPreviewDomain(publicUrl);
  if (domain === null) return { url: pathUrl, pathUrl };
  const { protocol, port: serverPort } = new URL(publicUrl);
  return {
    url: `${protocol}//${port}-${row.id}.${domain}${serverPort && `:${serverPort}`}/${query}`,
    pathUrl,
  };
}
