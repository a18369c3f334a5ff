import { afterAll } from "vitest";
import { endEventChecks, startEventChecks } from "./event-checks.ts";

/** Set-up of every test file: it fails at its end when a server in this process stored or sent an unpublished event. */
startEventChecks();
afterAll(endEventChecks);
