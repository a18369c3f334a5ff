import { PlatformError } from "@sandpiper/core/errors";

/** Errors of providers about the shape of a history, such as calls without results. */
const patterns = [
  /tool_use.{0,80}without.{0,40}tool_result/i,
  /unexpected.{0,20}tool_use_id/i,
  /tool_calls.{0,40}must be followed by tool messages/i,
  /role.{0,10}tool.{0,40}must be a response to a preceed?ing/i,
  /no tool (?:call|output) found for/i,
  /function (?:call turn|response turn) comes immediately/i,
  /number of function response parts/i,
  /roles must alternate/i,
  /(?:thinking|redacted_thinking).{0,80}(?:cannot be modified|must remain|invalid)/i,
  /invalid.{0,10}signature.{0,20}thinking/i,
  /thought_signature/i,
  /reasoning.{0,80}without its required following item/i,
];

/** Whether a provider refused the shape of the history, which a summary changes. */
export function isHistoryRefused(error: unknown): boolean {
  if (!(error instanceof PlatformError) || error.code !== "ModelFailed") return false;
  const text = error.message.slice(0, 2_000);
  return patterns.some((pattern) => pattern.test(text));
}
