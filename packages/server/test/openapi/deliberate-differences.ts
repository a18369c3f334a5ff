import type { Deliberate } from "./differences.ts";

/** Where this platform's document means to differ from the reference's app server. The test fails for one that is not here, and for one that is gone. */
export const appServer: readonly Deliberate[] = [];

/** The same for the V0 reads and settings. */
export const legacyV0: readonly Deliberate[] = [];

/** The same for the part of the agent server's surface that the server answers itself. */
export const agentServer: readonly Deliberate[] = [];
