import { describeWaits } from "@sandpiper/core/test/support/until";
import { afterAll, afterEach, beforeEach } from "vitest";
import { endEventChecks, startEventChecks } from "./event-checks.ts";
import { dropDatabases } from "./nodes/databases.ts";
import { skipReason } from "./nodes/skipped.ts";

/** Set-up of every test file: fails it if a server here emitted an unpublished event. */
startEventChecks();
afterAll(dropDatabases);
afterAll(endEventChecks);

beforeEach(({ task, skip }) => {
  const reason = skipReason(task.file.filepath, task.name);
  if (reason !== undefined) skip(reason);
});

afterEach(({ task }) => {
  const waits = describeWaits();
  const [error] = task.result?.errors ?? [];
  if (error) error.message += waits;
});
