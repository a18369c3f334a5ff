import type {
  BrowserGetContentAction,
  BrowserGoBackAction,
  BrowserNavigateAction,
  BrowserScrollAction,
} from "@sandpiper/wire";
import { Type } from "typebox";
import { BrowserUseError, type Tab } from "../../browser/tab.ts";
import { judgeAddress } from "../../risk/addresses.ts";
import { browserTool, maxTextLength, requireLiveTab, whereabouts } from "./browser-tool.ts";

export const navigateTool = browserTool<BrowserNavigateAction>({
  name: "browser_navigate",
  actionKind: "BrowserNavigateAction",
  description: `Opens a page in the browser of the sandbox, and waits until it is there.

- The browser reaches what the sandbox reaches: servers inside it by localhost, others as far as its network policy allows.
- Dialogs of pages are answered by themselves, and downloads are kept in a folder; the results tell of both.
- Read the page with browser_get_content, or use it with browser_get_state, browser_click and browser_type.`,
  parameters: Type.Object({
    url: Type.String({
      minLength: 1,
      maxLength: 20_000,
      description: "For example https://example.com or localhost:3000.",
    }),
    new_tab: Type.Optional(Type.Boolean({ default: false, description: "True: in a new tab." })),
  }),
  readOnly: false,
  risk: ({ url }) => ({ findings: judgeAddress(url), usual: "MEDIUM" }),
  async run({ url, new_tab }, browser, signal) {
    const address = toAddress(url);
    let tab = new_tab ? await browser.openTab(signal) : await browser.tab(signal);
    if (tab.dead) tab = await browser.replaceTab(tab, signal);
    if ((await tab.navigate(address, signal)) === "download") {
      await browser.downloaded(signal);
      return {
        text: `The address leads to a download, not to a page. ${await whereabouts(browser, signal)}`,
      };
    }
    const problem = await getProblem(tab, signal);
    return { text: `${problem}${await whereabouts(browser, signal)}` };
  },
});

async function getProblem(tab: Tab, signal: AbortSignal): Promise<string> {
  if (tab.loading) return "";
  try {
    const status = await tab.page<number>("status()", signal);
    return status >= 400 ? `The server answered with status ${status}. ` : "";
  } catch (error) {
    if (error instanceof BrowserUseError) return `${error.message} `;
    throw error;
  }
}

/** Completes the scheme. Throws BrowserUseError. */
function toAddress(text: string): string {
  const given = text.trim();
  const isLocal = /^(localhost|127\.|0\.0\.0\.0|\[::1?\]|[^/:]+:\d+(\/|$))/i.test(given);
  const url = URL.parse(
    /^[a-z][a-z0-9+.-]*:(?!\d)/i.test(given) ? given : `${isLocal ? "http" : "https"}://${given}`,
  );
  if (!url) throw new BrowserUseError(`${given.slice(0, 200)} is not an address.`);
  if (!["http:", "https:", "file:", "about:", "data:", "blob:"].includes(url.protocol))
    throw new BrowserUseError(
      `The browser opens http, https, file, data and about addresses, not ${url.protocol}`,
    );
  return url.href;
}

export const goBackTool = browserTool<BrowserGoBackAction>({
  name: "browser_go_back",
  actionKind: "BrowserGoBackAction",
  description: "Goes back to the page before in the history of the active tab.",
  parameters: Type.Object({}),
  readOnly: false,
  async run(_, browser, signal) {
    const tab = await requireLiveTab(browser, signal);
    const { currentIndex, entries } = await tab.send<{ currentIndex: number; entries: { id: number }[] }>(
      "Page.getNavigationHistory",
      {},
      { signal },
    );
    const before = entries[currentIndex - 1];
    if (!before) return { text: "There is no page before this one.", isError: true };
    await tab.send("Page.navigateToHistoryEntry", { entryId: before.id }, { signal });
    await tab.settle(signal);
    return { text: await whereabouts(browser, signal) };
  },
});

export const scrollTool = browserTool<BrowserScrollAction>({
  name: "browser_scroll",
  actionKind: "BrowserScrollAction",
  description: "Scrolls the page by most of a screen.",
  parameters: Type.Object({ direction: Type.Optional(Type.Enum(["up", "down"], { default: "down" })) }),
  readOnly: false,
  async run({ direction }, browser, signal) {
    const tab = await requireLiveTab(browser, signal);
    const place = await tab.page<{ moved: boolean; y: number; height: number; screen: number }>(
      `scroll("${direction}")`,
      signal,
    );
    await tab.settle(signal);
    const where = `The screen shows the pixels ${place.y} to ${place.y + place.screen} of ${place.height}.`;
    return {
      text: place.moved
        ? `Scrolled ${direction}. ${where}`
        : `Nothing scrolls further ${direction}. ${where}`,
    };
  },
});

export const getContentTool = browserTool<BrowserGetContentAction>({
  name: "browser_get_content",
  actionKind: "BrowserGetContentAction",
  description: `Gives the text of the page as Markdown, all of it and not only what is on the screen, ${maxTextLength} characters at a time.`,
  parameters: Type.Object({
    extract_links: Type.Optional(
      Type.Boolean({ default: false, description: "True: with the addresses of links." }),
    ),
    start_from_char: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 1e9,
        default: 0,
        description: "Where to go on in a long text, as an earlier result said.",
      }),
    ),
  }),
  readOnly: true,
  async run({ extract_links, start_from_char: start }, browser, signal) {
    const tab = await requireLiveTab(browser, signal);
    // Leaves space for the surrounding lines.
    const room = maxTextLength - 6_000;
    const { text, more, incomplete } = await tab.page<{ text: string; more: boolean; incomplete: boolean }>(
      `content(${extract_links}, ${start}, ${room})`,
      signal,
    );
    const head = await whereabouts(browser, signal);
    const rest = more
      ? `\n[There is more: go on with start_from_char=${start + text.length}.]`
      : incomplete
        ? "\n[The page is too large: only its beginning was read.]"
        : "";
    return { text: `${head}\n\n${text.trim() === "" ? "[No text here.]" : text}${rest}` };
  },
});
