import type { ActionEvent, SecurityRisk } from "@sandpiper/wire";
import { expect, test } from "vitest";
import { actionEvent } from "../../test/support/events.ts";
import { needsConfirmation, policyFromSettings } from "./confirmation.ts";

const call = (risk: SecurityRisk, tool = "terminal") =>
  ({ ...actionEvent("c", "ls"), security_risk: risk, tool_name: tool }) as ActionEvent;

test("settings choose the policy", () => {
  expect(policyFromSettings(false, "llm").kind).toBe("NeverConfirm");
  expect(policyFromSettings(null, null).kind).toBe("NeverConfirm");
  expect(policyFromSettings(true, "llm").kind).toBe("ConfirmRisky");
  expect(policyFromSettings(true, null).kind).toBe("AlwaysConfirm");
});

test("one risky action holds the whole batch", () => {
  const policy = policyFromSettings(true, "llm");
  expect(needsConfirmation(policy, [call("LOW"), call("MEDIUM")])).toBe(false);
  expect(needsConfirmation(policy, [call("LOW"), call("HIGH")])).toBe(true);
  expect(needsConfirmation(policy, [call("UNKNOWN")])).toBe(true);
});

test("a single finish or think never waits", () => {
  const always = policyFromSettings(true, null);
  expect(needsConfirmation(always, [call("HIGH", "finish")])).toBe(false);
  expect(needsConfirmation(always, [call("LOW", "think"), call("LOW")])).toBe(true);
});
