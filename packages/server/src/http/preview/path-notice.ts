import type { IncomingMessage } from "node:http";
import { Transform } from "node:stream";
import type { PreviewTarget } from "./address.ts";

/** Whether a page of an app can be extended: complete, uncompressed HTML. */
export function isPlainPage({ headers, statusCode }: IncomingMessage): boolean {
  return (
    statusCode === 200 &&
    /^text\/html\b/i.test(headers["content-type"] ?? "") &&
    /^(?:identity)?$/i.test(headers["content-encoding"] ?? "")
  );
}

/**
 * HTML for the end of a page in the path form. It stays blank when the app asks for `/assets/…`,
 * which is the platform's: then the notice says so, and names `hostUrl`, where the app works.
 */
export function makePathNotice({ prefix, cookiePath }: PreviewTarget, hostUrl: string | undefined): string {
  const values = JSON.stringify([[`${prefix}/`, cookiePath], cookiePath, hostUrl ?? ""]).replaceAll(
    "<",
    "\\u003c",
  );
  return `<script>(([own,prefix,host])=>addEventListener("load",()=>{
const lost=[...document.querySelectorAll("script[src],link[rel=stylesheet],img[src]")].map((e)=>e.getAttribute("src")??e.getAttribute("href")??"").find((a)=>/^\\/(?!\\/)/.test(a)&&!own.some((p)=>a.startsWith(p)));
if(lost===undefined)return;
const note=document.createElement("div");
note.style.cssText="position:fixed;inset:auto 0 0 0;z-index:2147483647;padding:.7em 1em;background:#fff3c4;color:#222;font:14px/1.5 system-ui,sans-serif";
note.append("This page asks for "+lost+", which a preview by path does not serve: only addresses below "+prefix+" are the app's. ");
if(host){const link=document.createElement("a");link.href=host;link.textContent="Open the app on a host of its own.";note.append(link)}
else note.append("Start the app with this base path.");
document.body.append(note)}))(${values})</script>`;
}

/** Appends a text to a stream. */
export function appendText(text: string): Transform {
  return new Transform({
    transform: (chunk, _encoding, done) => done(null, chunk),
    flush: (done) => done(null, text),
  });
}
