import type { PreparedSpec, SandboxLimits } from "./driver.ts";

/** The embedded default: the machine's own tools, no image. Works on every machine with an OCI runtime. */
export function hostSpec(limits: SandboxLimits): PreparedSpec {
  return {
    id: "host",
    root: { kind: "host" },
    command: null,
    env: {},
    workingDir: "/workspace/project",
    user: { name: "agent", uid: 1000, gid: 1000, home: "/home/agent" },
    limits,
    network: { mode: "none", allow: [], credentials: [] },
  };
}
