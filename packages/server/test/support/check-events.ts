import { describeWaits } from "@sandpiper/core/test/support/until";
import { afterAll, afterEach } from "vitest";
import { endEventChecks, startEventChecks } from "./event-checks.ts";

/** Set-up of every test file: it fails at its end when a server in this process stored or sent an unpublished event. */
startEventChecks();
afterAll(endEventChecks);

afterEach(({ task }) => {
  const waits = describeWaits();
  const [error] = task.result?.errors ?? [];
  if (error) error.message += waits;
});
