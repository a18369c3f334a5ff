import { PlatformError } from "@sandpiper/core/errors";
import type { Action, BrowserObservation, Content } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import type { TSchema } from "typebox";
import type { Browser } from "../../browser/browser.ts";
import { CdpError } from "../../browser/cdp.ts";
import { BrowserUseError, type Tab } from "../../browser/tab.ts";
import type { RuleRisk } from "../../risk/findings.ts";
import type { Tool } from "../tool.ts";

/** Characters of one result (agent-behaviour.md section 14). */
export const maxTextLength = 50_000;

/** Text for the model, and a picture in base64. */
export interface BrowserResult {
  text: string;
  isError?: boolean;
  screenshot?: string | undefined;
}

interface BrowserToolParts<A extends Action> {
  /** Wire name, `browser_…`. */
  name: string;
  actionKind: A["kind"];
  description: string;
  parameters: TSchema;
  /** It changes neither pages nor their storage. */
  readOnly: boolean;
  risk?(action: A): RuleRisk;
  run(action: A, browser: Browser, signal: AbortSignal): Promise<BrowserResult>;
}

/** A browser tool: browser errors become results. */
export function browserTool<A extends Action>(parts: BrowserToolParts<A>): Tool {
  const { name, actionKind, description, readOnly } = parts;
  const tool: Tool<A, BrowserObservation> = {
    name,
    description,
    definition: {
      kind: actionKind.replace(/Action$/, "Tool"),
      title: name,
      description,
      action_type: actionKind,
      observation_type: "BrowserObservation",
      annotations: {
        title: name,
        readOnlyHint: readOnly,
        destructiveHint: false,
        idempotentHint: readOnly,
        openWorldHint: true,
      },
    },
    parameters: parts.parameters,
    actionKind,
    idempotent: readOnly,
    readOnly,
    outside: true,
    render: { kind: "BrowserObservation", content: renderBrowser },
    ...(parts.risk && { risk: parts.risk }),
    resources: () => ["browser"],
    async run(action, context) {
      let browser: Browser | undefined;
      let result: BrowserResult;
      try {
        const used = await context.browser();
        browser = used;
        result = await used.use(() => parts.run(action, used, context.signal));
      } catch (error) {
        context.signal.throwIfAborted();
        result = { text: toProblem(error), isError: true };
      }
      const text = [result.text, ...(browser?.takeNotes() ?? [])].join("\n").slice(0, maxTextLength);
      return {
        kind: "BrowserObservation",
        content: [textContent(text)],
        is_error: result.isError === true,
        ...(result.screenshot !== undefined && { screenshot_data: result.screenshot }),
      };
    },
  };
  return tool;
}

/** The text and the separately stored screenshot (events.md section 4). */
function renderBrowser({ content, screenshot_data: data }: BrowserObservation): Content[] {
  if (!data) return content;
  const type = data.startsWith("iVBOR") ? "png" : "jpeg";
  return [
    ...content,
    { type: "image", image_urls: [`data:image/${type};base64,${data}`], cache_prompt: false },
  ];
}

/** Rethrows errors that are not the browser's. */
function toProblem(error: unknown): string {
  if (error instanceof BrowserUseError) return error.message;
  if (error instanceof CdpError) {
    if (error.kind === "refused") return `The browser could not do that: ${error.message}`;
    return error.kind === "hung" ? error.message : `${error.message} The next call starts a new one.`;
  }
  if (
    error instanceof PlatformError &&
    ["BrowserUnavailable", "PortUnreachable", "InvalidParameter"].includes(error.code)
  )
    return error.message;
  throw error;
}

/** The active tab. Throws BrowserUseError when its page hangs, and what `Browser.tab` throws. */
export async function requireLiveTab(browser: Browser, signal: AbortSignal): Promise<Tab> {
  const tab = await browser.tab(signal);
  if (tab.dead)
    throw new BrowserUseError(
      "The page in this tab does not answer any more. Open another one with browser_navigate.",
    );
  return tab;
}

/** The active tab's address in a line. */
export async function whereabouts(browser: Browser, signal: AbortSignal): Promise<string> {
  const active = (await browser.tabs(signal)).find((tab) => tab.active);
  if (!active) return "No page is open.";
  return `The active tab ${active.id} shows ${active.url}${active.title ? `, titled ${JSON.stringify(active.title)}` : ""}.`;
}
