import type { BrowserGetStorageAction, BrowserSetStorageAction } from "@sandpiper/wire";
import { Type } from "typebox";
import { BrowserUseError } from "../../browser/tab.ts";
import { browserTool, maxTextLength, requireLiveTab } from "./browser-tool.ts";

/** Fields of a cookie. */
const cookieFields = "name value domain path expires httpOnly secure sameSite".split(" ");

type Item = { name: string; value: string };
interface OriginStorage {
  origin: string;
  localStorage: Item[];
  sessionStorage: Item[];
}

export const getStorageTool = browserTool<BrowserGetStorageAction>({
  name: "browser_get_storage",
  actionKind: "BrowserGetStorageAction",
  description:
    "Gives the cookies of the browser and what the page's origin stores (localStorage, sessionStorage), as JSON for browser_set_storage.",
  parameters: Type.Object({}),
  readOnly: true,
  async run(_, browser, signal) {
    const tab = await requireLiveTab(browser, signal);
    const { cut, ...storage } = await tab.page<OriginStorage & { cut: boolean }>(
      `storage(${maxTextLength / 2})`,
      signal,
    );
    const { cookies } = await browser.send<{ cookies: Record<string, unknown>[] }>(
      "Storage.getCookies",
      {},
      signal,
    );
    let room = maxTextLength - 1_000 - JSON.stringify(storage).length;
    const shown = cookies.map(toCookie).filter((cookie) => {
      room -= JSON.stringify(cookie).length + 1;
      return room > 0;
    });
    const text = JSON.stringify({ cookies: shown, origins: storage.origin === "null" ? [] : [storage] });
    return { text: cut || shown.length < cookies.length ? `${text}\n[There is more than fits here.]` : text };
  },
});

export const setStorageTool = browserTool<BrowserSetStorageAction>({
  name: "browser_set_storage",
  actionKind: "BrowserSetStorageAction",
  description: `Sets cookies and what origins store. What is for another origin than that of the active page is set when the tab opens a page of it.`,
  parameters: Type.Object({
    storage_state: Type.Record(Type.String(), Type.Unknown(), {
      description:
        '{"cookies": [{"name", "value", "domain", "path"}], "origins": [{"origin", "localStorage": [{"name", "value"}], "sessionStorage": […]}]}',
    }),
  }),
  readOnly: false,
  async run({ storage_state }, browser, signal) {
    const cookies = objects(storage_state.cookies, "cookies").map(toCookie);
    const origins = objects(storage_state.origins, "origins").map(toOrigin);
    const tab = await requireLiveTab(browser, signal);
    if (cookies.length > 0) await browser.send("Storage.setCookies", { cookies }, signal);
    const elsewhere: OriginStorage[] = [];
    for (const storage of origins)
      if (!(await tab.page<boolean>(`store(${JSON.stringify(storage)})`, signal))) elsewhere.push(storage);
    if (elsewhere.length > 0)
      await tab.send(
        "Page.addScriptToEvaluateOnNewDocument",
        { source: `(${fill})(${JSON.stringify(elsewhere)})` },
        { signal },
      );
    return { text: `Set ${cookies.length} cookies and the storage of ${origins.length} origins.` };
  },
});

/** Runs in new pages and keeps what they have stored since. */
const fill = `(all) => {
  for (const { origin, ...stores } of all) {
    if (origin !== location.origin) continue;
    for (const kind of ["localStorage", "sessionStorage"]) {
      for (const { name, value } of stores[kind]) if (window[kind].getItem(name) === null) window[kind].setItem(name, value);
    }
  }
}`;

function toCookie(cookie: Record<string, unknown>): Record<string, unknown> {
  const entries = [...cookieFields, "url"].flatMap((key) => {
    const value = cookie[key];
    // Session cookies have -1, which cannot be set.
    return value === undefined || value === null || (key === "expires" && Number(value) < 0)
      ? []
      : [[key, value] as const];
  });
  return Object.fromEntries(entries);
}

function toOrigin({ origin, localStorage, sessionStorage }: Record<string, unknown>): OriginStorage {
  const items = (value: unknown, name: string) =>
    objects(value, name).map((item) => ({ name: String(item.name ?? ""), value: String(item.value ?? "") }));
  return {
    origin: URL.parse(String(origin))?.origin ?? "",
    localStorage: items(localStorage, "localStorage"),
    sessionStorage: items(sessionStorage, "sessionStorage"),
  };
}

/** Throws BrowserUseError. */
function objects(value: unknown, name: string): Record<string, unknown>[] {
  if (value === undefined || value === null) return [];
  if (
    Array.isArray(value) &&
    value.length <= 1_000 &&
    value.every((item) => typeof item === "object" && item !== null)
  )
    return value;
  throw new BrowserUseError(`"${name}" must be a list of objects, 1,000 at most.`);
}
