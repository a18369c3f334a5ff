import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { previewDomain, tokenParameter } from "./address.ts";
import { makeToken } from "./token.ts";

/**
 * The addresses under which a browser opens a port of a sandbox until `expires` (ms since the epoch), below the server's own address `publicUrl`.
 * Where clients use an IP address there are no host names for previews, and `url` is the path form too.
 */
export function previewLink(
  row: SandboxRow,
  port: number,
  publicUrl: string,
  expires: number,
): { url: string; pathUrl: string } {
  const query = `?${tokenParameter}=${makeToken(row, port, "link", expires)}`;
  const pathUrl = `${publicUrl}/preview/${row.id}/${port}/${query}`;
  const domain = previewDomain(publicUrl);
  if (domain === null) return { url: pathUrl, pathUrl };
  const { protocol, port: serverPort } = new URL(publicUrl);
  return {
    url: `${protocol}//${port}-${row.id}.${domain}${serverPort && `:${serverPort}`}/${query}`,
    pathUrl,
  };
}
