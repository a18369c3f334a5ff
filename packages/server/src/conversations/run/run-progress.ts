import type { CallProgress } from "@sandpiper/agent/loop/progress-reporter";

/** The progress of a call, for clients. */
export interface RunProgress extends CallProgress {
  tool_call_id: string;
  tool_name: string;
}
