import { type CallProgress, maxReportedOutput } from "@sandpiper/agent/loop/progress-reporter";

/** The progress of a call, for clients. */
export interface RunProgress extends CallProgress {
  tool_call_id: string;
  tool_name: string;
}

/**
 * Adds a report to the progress of a run: the result has the end of all that the call printed.
 * `before` may be the progress of another call.
 */
export function addProgress(before: RunProgress | undefined, next: RunProgress): RunProgress {
  const same = before?.tool_call_id === next.tool_call_id ? before : undefined;
  const output = ((same?.output ?? "") + (next.output ?? "")).slice(-maxReportedOutput);
  const output_end = next.output_end ?? same?.output_end;
  return { ...next, ...(output_end !== undefined && { output, output_end }) };
}
