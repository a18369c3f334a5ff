import { basename } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** The slowest test files, slowest first. */
const longest = [
  ...[
    "agent-every-append.slow",
    "command-line.slow",
    "browser.slow",
    "browser-faults.slow",
    "docker-suite.slow",
    "start-repository.slow",
    "crash.slow",
    "fuzz.slow",
    "linear.slow",
    "client-agents.slow",
    "costly-input.slow",
    "repository-trust.slow",
  ],
  ...[
    "suite",
    "service-lifecycle",
    "service-snapshots",
    "killed-sandbox.slow",
    "sockets",
    "hanging.slow",
    "rootless.slow",
    "hostile-images.slow",
    "oci-suite",
  ],
  ...[
    "lifecycle",
    "survive.slow",
    "restart.slow",
    "disk-full.slow",
    "bash-faults.slow",
    "oci-driver",
    "pending-crash.slow",
    "session",
  ],
  ...[
    "demo",
    "callbacks.slow",
    "warm-shell",
    "recording.slow",
    "branches-crash.slow",
    "image-store.slow",
    "hostile.slow",
    "service",
    "bash",
  ],
  ...[
    "recorded",
    "agent-hanging.slow",
    "limits.slow",
    "memory",
    "memory-limits.slow",
    "plugins",
    "model-endpoints",
    "mcp",
    "agent-tools",
  ],
];

/** Starts the slowest files first, so that all workers finish at about the same time. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ project, moduleId }: TestSpecification) => {
      const place = longest.indexOf(basename(moduleId, ".test.ts"));
      // Files with a worker of their own come first: a change of the project ends a shared worker.
      return (project.name.endsWith("own worker") ? 0 : 1_000) + (place < 0 ? longest.length : place);
    };
    return (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other));
  }
}
