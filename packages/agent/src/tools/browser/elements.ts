import type { BrowserClickAction, BrowserGetStateAction, BrowserTypeAction } from "@sandpiper/wire";
import { Type } from "typebox";
import { CdpError } from "../../browser/cdp.ts";
import { BrowserUseError, type Tab } from "../../browser/tab.ts";
import { browserTool, maxTextLength, requireLiveTab, whereabouts } from "./browser-tool.ts";

/** Elements of one state. */
const maxElements = 300;

/** Characters of a base64 screenshot: a larger one is compressed or left out. */
const maxScreenshotLength = 1_500_000;

interface PageState {
  interactive_elements: object[];
  elements_after?: number;
}

export const getStateTool = browserTool<BrowserGetStateAction>({
  name: "browser_get_state",
  actionKind: "BrowserGetStateAction",
  description: `Tells what the active page is and numbers what can be clicked or filled in there. Ask again after the page has changed: the numbers are new then.`,
  parameters: Type.Object({
    include_screenshot: Type.Optional(
      Type.Boolean({ default: false, description: "True: with a picture of the screen." }),
    ),
  }),
  readOnly: true,
  async run({ include_screenshot }, browser, signal) {
    const tab = await requireLiveTab(browser, signal);
    const state = await tab.page<PageState>(`state(${maxElements})`, signal);
    const tabs = (await browser.tabs(signal)).map(({ id, url, title }) => ({
      tab_id: id,
      url: url.slice(0, 300),
      title: title.slice(0, 100),
    }));
    const text = stateText(tab.id, state, tabs);
    if (!include_screenshot) return { text };
    const screenshot = await takeScreenshot(tab, signal);
    return {
      text: screenshot === undefined ? `${text}\nNo picture of the page could be made.` : text,
      screenshot,
    };
  },
});

/** JSON with one element per line, cut between elements. */
function stateText(
  tabId: string,
  { interactive_elements: elements, ...state }: PageState,
  tabs: object[],
): string {
  const lines: string[] = [];
  let room = maxTextLength - 2_000 - JSON.stringify(tabs).length - JSON.stringify(state).length;
  for (const element of elements) {
    const line = `  ${JSON.stringify(element)}`;
    room -= line.length + 2;
    if (room < 0) break;
    lines.push(line);
  }
  const after = (state.elements_after ?? 0) + elements.length - lines.length;
  const head = JSON.stringify({ tab_id: tabId, ...state, ...(after > 0 && { elements_after: after }), tabs });
  return `${head.slice(0, -1)}, "interactive_elements": [\n${lines.join(",\n")}\n]}`;
}

async function takeScreenshot(tab: Tab, signal: AbortSignal): Promise<string | undefined> {
  try {
    const png = await tab.screenshot({ format: "png" }, signal);
    if (png.length <= maxScreenshotLength) return png;
    const jpeg = await tab.screenshot({ format: "jpeg", quality: 60 }, signal);
    return jpeg.length <= maxScreenshotLength ? jpeg : undefined;
  } catch (error) {
    if (error instanceof CdpError) return undefined;
    throw error;
  }
}

type Problem = {
  problem: "unnumbered" | "unknown" | "gone" | "disabled" | "untyped" | "option" | "value";
  count?: number;
  options?: string[];
  shown?: string;
};
type Place = {
  x: number;
  y: number;
  hit: boolean;
  name: string;
  disabled: boolean;
  href: string;
  isFile: boolean;
};

export const clickTool = browserTool<BrowserClickAction>({
  name: "browser_click",
  actionKind: "BrowserClickAction",
  description:
    "Clicks an element by its number from the last browser_get_state, and waits for the page that it may lead to.",
  parameters: Type.Object({
    index: Type.Integer({ minimum: 0, maximum: 1e6, description: "Number of the element." }),
    new_tab: Type.Optional(
      Type.Boolean({ default: false, description: "True: open the link in a new tab." }),
    ),
  }),
  readOnly: false,
  async run({ index, new_tab }, browser, signal) {
    const tab = await requireLiveTab(browser, signal);
    const place = await tab.page<Place | Problem>(`locate(${index})`, signal);
    if ("problem" in place) throw new BrowserUseError(problemText(index, place));
    if (place.disabled) throw new BrowserUseError(`Element ${index} is disabled.`);
    if (place.name === "select")
      throw new BrowserUseError(
        `Element ${index} is a list: choose with browser_type and the text of an option.`,
      );
    if (place.isFile)
      throw new BrowserUseError(`Element ${index} takes a file: give its path with browser_type.`);
    if (new_tab && place.href) {
      const opened = await browser.openTab(signal);
      await opened.navigate(place.href, signal);
      return {
        text: `Opened the link of element ${index} in a new tab. ${await whereabouts(browser, signal)}`,
      };
    }
    await browser.following(async () => {
      if (place.hit) await clickAt(tab, place, signal);
      else await tab.page(`click(${index})`, signal);
      await tab.settle(signal);
    });
    return { text: `Clicked element ${index}. ${await whereabouts(browser, signal)}` };
  },
});

async function clickAt(tab: Tab, { x, y }: Place, signal: AbortSignal): Promise<void> {
  const common = { x, y, button: "left", clickCount: 1 };
  await tab.send("Input.dispatchMouseEvent", { type: "mouseMoved", x, y }, { signal });
  await tab.send("Input.dispatchMouseEvent", { type: "mousePressed", ...common, buttons: 1 }, { signal });
  await tab.send("Input.dispatchMouseEvent", { type: "mouseReleased", ...common }, { signal });
}

export const typeTool = browserTool<BrowserTypeAction>({
  name: "browser_type",
  actionKind: "BrowserTypeAction",
  description: `Puts text into an element by its number from the last browser_get_state, in the place of what is there.

- A line break at the end of the text for a field of one line presses Enter.
- In a list (select) it chooses the option with that text or value. A file field takes the path of a file in the sandbox.`,
  parameters: Type.Object({
    index: Type.Integer({ minimum: 0, maximum: 1e6, description: "Number of the element." }),
    text: Type.String({ maxLength: 200_000 }),
  }),
  readOnly: false,
  async run({ index, text }, browser, signal) {
    const tab = await requireLiveTab(browser, signal);
    const ready = await tab.page<{ done?: boolean; file?: boolean; single?: boolean } | Problem>(
      `type(${index}, ${JSON.stringify(text)})`,
      signal,
    );
    if ("problem" in ready) throw new BrowserUseError(problemText(index, ready));
    if (ready.file) {
      const { objectId } = await tab.page<{ objectId?: string }>(`element(${index})`, signal, false);
      await tab.send("DOM.setFileInputFiles", { files: text.trim().split("\n"), objectId }, { signal });
    } else if (!ready.done) {
      const enter = ready.single === true && /\r?\n$/.test(text);
      const plain = enter ? text.replace(/\r?\n$/, "") : text;
      if (plain === "") await press(tab, "Backspace", 8, signal);
      else await tab.send("Input.insertText", { text: plain }, { signal });
      if (enter)
        await browser.following(() => press(tab, "Enter", 13, signal).then(() => tab.settle(signal)));
    }
    await tab.settle(signal);
    return { text: `Filled in element ${index}. ${await whereabouts(browser, signal)}` };
  },
});

async function press(tab: Tab, key: string, windowsVirtualKeyCode: number, signal: AbortSignal) {
  const text = key === "Enter" ? { text: "\r" } : {};
  const common = { key, code: key, windowsVirtualKeyCode };
  await tab.send("Input.dispatchKeyEvent", { type: "keyDown", ...common, ...text }, { signal });
  await tab.send("Input.dispatchKeyEvent", { type: "keyUp", ...common }, { signal });
}

function problemText(index: number, { problem, count = 0, options = [], shown }: Problem): string {
  const texts: Record<Problem["problem"], string> = {
    unnumbered: "The elements of this page have no numbers yet: call browser_get_state first.",
    unknown: `There is no element ${index}: the last browser_get_state numbered 0 to ${count - 1}.`,
    gone: `Element ${index} is not on the page any more: call browser_get_state again.`,
    disabled: `Element ${index} cannot be filled in: it is disabled or read-only.`,
    untyped: `Element ${index} takes no text: click it.`,
    option: `Element ${index} has no such option. It has: ${options.map((option) => JSON.stringify(option)).join(", ")}`,
    value: `Element ${index} did not take that text: it shows ${JSON.stringify(shown)} now. Dates are written as 2026-01-31, times as 13:45.`,
  };
  return texts[problem];
}
