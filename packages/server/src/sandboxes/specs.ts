import type { Config } from "../config/config.ts";
import type { SandboxSpec } from "./driver.ts";

/** The embedded default: the machine's own tools, no image. Works on every machine with an OCI runtime. */
export function hostSpec(limits: Config["limits"]): SandboxSpec {
  return {
    id: "host",
    root: { kind: "host" },
    command: null,
    env: {},
    workingDir: "/workspace/project",
    user: { name: "agent", uid: 1000, gid: 1000, home: "/home/agent" },
    limits,
  };
}
