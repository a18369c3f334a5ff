import type { ErrorTexts } from "./texts.ts";

export const nodesErrors = {
  NodeUnreachable: {
    SandboxWithoutNode:
      "No server can reach the machine of this sandbox now; try again when that machine is back.",
    NodeNotReady: "This server has no connection to the others now; try again in a moment.",
    NodeNotReached: "The server that runs this sandbox does not answer; try again in a moment.",
  },
  SandboxMoved: {
    SandboxHasMoved: "The sandbox has just moved to another server; try again.",
  },
  /** Nothing of the request has begun. */
  SandboxElsewhere: {
    GroupElsewhere: "Another server runs the sandbox that the conversation shares; try again.",
  },
  NodeFailed: {
    NodeBroke:
      "The server that runs this sandbox ended before it answered: look whether the request was carried out, and repeat it if not.",
  },
} as const satisfies ErrorTexts;
