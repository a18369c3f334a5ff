import { createHash } from "node:crypto";

const style =
  "body{font:16px/1.5 system-ui,sans-serif;color-scheme:light dark;max-width:24em;margin:20vh auto;padding:0 1em}" +
  "h1{font-size:1.4em}label,input,button{display:block;width:100%;box-sizing:border-box;font:inherit}" +
  "input{margin:.3em 0 1em;padding:.5em}button{padding:.5em}p[role=alert]{color:#b3261e}";

/**
 * Sends the text behind `#link=` of the address as a form, once: browsers send it to no server by
 * themselves, and neither a history nor a log keeps it.
 */
const linkScript = `
const useLink = () => {
  const link = new URLSearchParams(location.hash.slice(1)).get("link");
  if (!link) return;
  history.replaceState(null, "", location.pathname + location.search);
  const form = document.createElement("form");
  form.method = "post";
  form.action = "login";
  const field = document.createElement("input");
  field.type = "hidden";
  field.name = "link";
  field.value = link;
  form.append(field);
  document.body.append(form);
  form.submit();
};
addEventListener("hashchange", useLink);
useLink();
`;

const hashOf = (text: string) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

/** The pages load nothing and submit forms only to this server; `scripts` may run. */
const makePolicy = (...scripts: string[]) =>
  [
    "default-src 'none'",
    ...scripts.map((script) => `script-src ${hashOf(script)}`),
    `style-src ${hashOf(style)}`,
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join("; ");

/**
 * Headers of every page without a script. A stricter referrer policy would make browsers send
 * `Origin: null`.
 */
export const pageHeaders = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": makePolicy(),
  "referrer-policy": "same-origin",
  "x-content-type-options": "nosniff",
} as const;

/** Headers of the page to which login links lead. */
export const linkPageHeaders = { ...pageHeaders, "content-security-policy": makePolicy(linkScript) } as const;

/**
 * The login form. `next` is the path where it goes on, `problem` says why the last key was
 * rejected.
 */
export function renderLoginPage({ next, problem }: { next?: string; problem?: string } = {}): string {
  const goOn = next === undefined ? "" : `<input type="hidden" name="next" value="${escapeHtml(next)}">`;
  return renderPage(
    "Log in",
    `${problem === undefined ? "" : `<p role="alert">${escapeHtml(problem)}</p>`}<form method="post" action="login">${goOn}<label for="key">API key</label><input id="key" name="key" type="password" autocomplete="current-password" required autofocus maxlength="1024"><button>Log in</button></form><script>${linkScript}</script>`,
  );
}

/** The page of a logged-in browser; `next` is the path where its link goes on. */
export function renderWelcomePage(user: string, readOnly: boolean, next = "/"): string {
  const rights = readOnly ? " The key is read-only." : "";
  return renderPage(
    "Logged in",
    `<p>This browser is logged in as ${escapeHtml(user)}.${rights}</p><p><a href="${escapeHtml(`.${next}`)}">Go on</a> · <a href="docs">API documentation</a></p>${logOutForm}<script>${linkScript}</script>`,
  );
}

/** The start page; `holder` is the browser's login. */
export function renderStartPage(
  version: string,
  holder: { userId: string; readOnly: boolean } | undefined,
): string {
  const access = holder
    ? `<p>This browser is logged in as ${escapeHtml(holder.userId)}.${holder.readOnly ? " The key is read-only." : ""}</p>${logOutForm}`
    : `<p><a href="login">Log in</a> with an API key. <code>sandpiper keys create</code> makes one.</p>`;
  return renderPage(
    "Sandpiper",
    `<p>This server lets software agents work in isolated sandboxes. It runs Sandpiper ${escapeHtml(version)}.</p>${access}<ul><li><a href="docs">API documentation</a> of this server</li><li>Documentation: <code>docs/README.md</code> in the folder of the installation; the pages in <code>docs/clients</code> say how to connect a web interface or an SDK</li></ul>`,
  );
}

const logOutForm = '<form method="post" action="logout"><button>Log out</button></form>';

function renderPage(title: string, content: string): string {
  return `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title === "Sandpiper" ? title : `${title} · Sandpiper`}</title><style>${style}</style><main><h1>${title}</h1>${content}</main></html>\n`;
}

function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
