import type { BrowserObservation, Content, Observation, TerminalObservation } from "@sandpiper/wire";
import { renderObservation } from "./render.ts";
import { renderBrowser } from "./render-browser.ts";
import { renderTerminal } from "./render-terminal.ts";

/** What the model reads of a result, by the observation's kind: its content, unless a tool says more there (events.md section 3). */
export function readResult(observation: Observation): Content[] {
  if (observation.kind === "TerminalObservation")
    return renderObservation(observation, renderTerminal(observation as TerminalObservation));
  if (observation.kind === "BrowserObservation")
    return renderObservation(observation, renderBrowser(observation as BrowserObservation));
  return renderObservation(observation);
}
