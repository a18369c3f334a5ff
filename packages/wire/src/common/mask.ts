/** Replaces secrets in responses, logs and errors (agent-server.md section 3.1). */
export const maskText = "**********";
