import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import type { ConversationRuntimeInfo } from "@sandpiper/wire";

/**
 * The sandbox of a conversation as its runtime (agent-server-1.49.md section 2.1). A paused sandbox
 * is available, because its next use resumes it; a deleted one is missing for good.
 */
export function presentRuntime(
  sandbox: Pick<SandboxRow, "status" | "statusDetail"> | undefined,
): ConversationRuntimeInfo {
  if (!sandbox) return { runtime_status: "missing", can_resume: false, runtime_error: null };
  const { status, statusDetail } = sandbox;
  // A sandbox that was stopped for a reason runs again only when its user asks for it.
  if (status === "ERROR" || (status === "PAUSED" && statusDetail !== null)) {
    const message = statusDetail ?? "The sandbox has failed.";
    const code = status === "ERROR" ? "SandboxFailed" : "SandboxStopped";
    return { runtime_status: "error", can_resume: true, runtime_error: { code, message } };
  }
  const runtime_status = status === "STARTING" ? "starting" : "available";
  return { runtime_status, can_resume: true, runtime_error: null };
}
