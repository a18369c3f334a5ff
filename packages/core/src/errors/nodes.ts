import type { ErrorTexts } from "./texts.ts";

export const nodesErrors = {
  NodeUnreachable: {
    SandboxWithoutNode:
      "No server can reach the machine of this sandbox now; try again when that machine is back.",
  },
} as const satisfies ErrorTexts;
