import type { Finding } from "../shell-rules.ts";
import { reachOf } from "./addresses.ts";
import { isCredentialPath } from "./paths.ts";

/** Longest part of an address that asks, and that nobody would call data, characters. */
const maxAsked = 2_000;
/** A run of characters that only an encoder writes. */
const encoded = /[A-Za-z0-9+/_-]{400}/;

/** What is dangerous about an address that a browser goes to. */
export function judgeAddress(address: string): Finding[] {
  const text = address.trim().slice(0, 100_000);
  if (/^file:/i.test(text)) {
    const path = URL.parse(text)?.pathname ?? "";
    return isCredentialPath(decoded(path)) ? ["reads credentials"] : [];
  }
  const url = URL.parse(/^[a-z][a-z0-9+.-]{0,20}:/i.test(text) && !/^[\w.-]{1,200}:\d/.test(text) ? text : `http://${text}`);
  if (!url || !/^(?:https?|wss?|ftp):$/.test(url.protocol)) return [];
  const reach = reachOf(url.host);
  if (reach === "metadata") return ["reads credentials", "asks an address of the inside"];
  const findings: Finding[] = reach === "private" ? ["asks an address of the inside"] : [];
  const asked = url.search + url.hash;
  const names = url.hostname.split(".").some((label) => label.length > 50);
  if (reach === "outside" && (asked.length > maxAsked || encoded.test(asked) || encoded.test(url.pathname) || names))
    findings.push("hides data in an address");
  return findings;
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
