import { createHash } from "node:crypto";
import { inert } from "@sandpiper/core/inert";
import type { Behaviour } from "@sandpiper/wire";

const style =
  "body{font:16px/1.5 system-ui,sans-serif;color-scheme:light dark;max-width:52em;margin:2em auto;padding:0 1em}" +
  "h1{font-size:1.4em}h2{font-size:1em;margin-bottom:.2em}button{font:inherit;padding:.5em 1em}" +
  "pre{white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid;padding:.6em;margin:0}";

/** The page has no script, loads nothing, and submits its form only to this server. */
const policy = [
  "default-src 'none'",
  `style-src 'sha256-${createHash("sha256").update(style).digest("base64")}'`,
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join("; ");

export const behaviourPageHeaders = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": policy,
  "referrer-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "cache-control": "no-store",
} as const;

/** Names of the kinds, for people. */
const titles: Readonly<Record<Behaviour["parts"][number]["kind"], string>> = {
  setup_script: "Runs when a conversation begins",
  pre_commit: "Runs at each commit",
  hook: "Runs at an event of the agent",
  model_hook: "Asks your model at an event of the agent",
  mcp_server: "Gives the agent tools of an MCP server",
  skill_command: "Runs when the agent reads a skill",
  git_setting: "Names programs that git runs",
  sub_agent: "Gives a sub-agent fewer confirmations or another model",
  file: "Is named by one of these",
};

/** The page of a behaviour: all that it does, and a button that accepts it. */
export function renderBehaviourPage({ origin, parts, accepted_at, digest }: Behaviour): string {
  const items = parts.map(
    ({ kind, source, text }) =>
      `<h2>${titles[kind]}: ${escapeText(source)}</h2><pre>${escapeText(text)}</pre>`,
  );
  const form =
    accepted_at === null
      ? `<p>Until you accept this, sandboxes with it get none of your secrets and tokens.</p><form method="post" action="${digest}"><button>Accept and give it my secrets</button></form>`
      : `<p>You accepted this on ${escapeText(accepted_at)}. A changed file is asked about again.</p>`;
  const title = "What a repository does by itself";
  return `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title} · Sandpiper</title><style>${style}</style><h1>${title}</h1><p>From ${escapeText(origin)}</p>${items.join("")}${form}</html>\n`;
}

/** Characters that a reader cannot see are shown by their numbers. */
function escapeText(text: string): string {
  return inert(text).replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
