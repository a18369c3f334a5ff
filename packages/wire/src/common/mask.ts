/** What stands in the place of a secret, in answers, logs and errors (agent-server.md section 3.1). */
export const maskText = "**********";
