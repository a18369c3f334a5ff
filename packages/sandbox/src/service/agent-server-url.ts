/** URL of a sandbox's agent-server surface below the server's own, without a trailing slash. */
export function toAgentServerUrl(publicUrl: string, sandboxId: string): string {
  return `${publicUrl}/agent/${sandboxId}`;
}
