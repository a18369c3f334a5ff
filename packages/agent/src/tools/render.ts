import type { Content, Observation } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";

/** What the model reads of a result: its content, after a header line when it is an error (events.md section 3). */
export function renderObservation(
  observation: Observation,
  content: Content[] = observation.content,
): Content[] {
  return observation.is_error ? [textContent("[This call failed.]"), ...content] : content;
}
