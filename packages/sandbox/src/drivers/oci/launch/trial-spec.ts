import type { PreparedSpec } from "../../../driver.ts";

/** Pattern of the ids of trial sandboxes. Only the process that starts one knows its id. */
export const trialPattern = /^trial-[0-9a-f]{16}$/;

/** Spec of an idle sandbox with which the driver tests the runtime. */
export const trialSpec: PreparedSpec = {
  network: { mode: "none", allow: [], credentials: [] },
  id: "trial",
  root: { kind: "host" },
  command: null,
  env: {},
  workingDir: "/workspace",
  user: { name: "agent", uid: 1000, gid: 1000, home: "/home/agent" },
  limits: { memoryBytes: 64 * 2 ** 20, pids: 16, cpus: 1, diskBytes: 2 ** 20 },
};
