/** Where the agent-server surface of a sandbox stands, below the server's own address; without a trailing slash. */
export function toAgentServerUrl(publicUrl: string, sandboxId: string): string {
  return `${publicUrl}/agent/${sandboxId}`;
}
