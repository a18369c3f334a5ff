import type { BrowserCloseTabAction, BrowserListTabsAction, BrowserSwitchTabAction } from "@sandpiper/wire";
import { Type } from "typebox";
import type { Browser } from "../../browser/browser.ts";
import { BrowserUseError } from "../../browser/tab.ts";
import { browserTool, whereabouts } from "./browser-tool.ts";

const tabId = {
  tab_id: Type.String({ maxLength: 100, description: "The four characters that name the tab." }),
};

export const listTabsTool = browserTool<BrowserListTabsAction>({
  name: "browser_list_tabs",
  actionKind: "BrowserListTabsAction",
  description: "Lists the open tabs.",
  parameters: Type.Object({}),
  readOnly: true,
  run: async (_, browser, signal) => ({ text: await tabList(browser, signal) }),
});

export const switchTabTool = browserTool<BrowserSwitchTabAction>({
  name: "browser_switch_tab",
  actionKind: "BrowserSwitchTabAction",
  description: "Makes another tab the active one.",
  parameters: Type.Object(tabId),
  readOnly: false,
  async run({ tab_id }, browser, signal) {
    if (!(await browser.select(tab_id, signal))) throw await unknown(tab_id, browser, signal);
    return { text: await whereabouts(browser, signal) };
  },
});

export const closeTabTool = browserTool<BrowserCloseTabAction>({
  name: "browser_close_tab",
  actionKind: "BrowserCloseTabAction",
  description: "Closes a tab.",
  parameters: Type.Object(tabId),
  readOnly: false,
  async run({ tab_id }, browser, signal) {
    if (!(await browser.closeTab(tab_id, signal))) throw await unknown(tab_id, browser, signal);
    return { text: `Closed the tab ${tab_id}. ${await whereabouts(browser, signal)}` };
  },
});

async function unknown(id: string, browser: Browser, signal: AbortSignal): Promise<BrowserUseError> {
  return new BrowserUseError(`There is no tab ${id}. The tabs: ${await tabList(browser, signal)}`);
}

async function tabList(browser: Browser, signal: AbortSignal): Promise<string> {
  const tabs = await browser.tabs(signal);
  return JSON.stringify(tabs.map(({ id, ...tab }) => ({ tab_id: id, ...tab })));
}
