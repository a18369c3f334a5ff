import { describeWaits } from "@sandpiper/core/test/support/until";
import { afterAll, afterEach } from "vitest";
import { endEventChecks, startEventChecks } from "./event-checks.ts";

/** Set-up of every test file: fails it if a server here emitted an unpublished event. */
startEventChecks();
afterAll(endEventChecks);

afterEach(({ task }) => {
  const waits = describeWaits();
  const [error] = task.result?.errors ?? [];
  if (error) error.message += waits;
});
