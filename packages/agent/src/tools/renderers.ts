import type {
  BrowserObservation,
  Content,
  Observation,
  TaskObservation,
  TerminalObservation,
} from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import { renderObservation } from "./render.ts";
import { renderBrowser } from "./render-browser.ts";
import { renderTerminal } from "./render-terminal.ts";

/** What the model reads of a result, by the observation's kind: its content, unless a tool says more there (events.md section 3). */
export function readResult(observation: Observation): Content[] {
  if (observation.kind === "TerminalObservation")
    return renderObservation(observation, renderTerminal(observation as TerminalObservation));
  if (observation.kind === "BrowserObservation")
    return renderObservation(observation, renderBrowser(observation as BrowserObservation));
  if (observation.kind === "TaskObservation") {
    const { content, task_id } = observation as TaskObservation;
    // By this name a later call goes on with the sub-agent.
    return renderObservation(
      observation,
      task_id ? [...content, textContent(`[task_id: ${task_id}]`)] : [...content],
    );
  }
  return renderObservation(observation);
}
