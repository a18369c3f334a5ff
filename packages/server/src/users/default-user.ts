/** The implicit user of a self-hosted server. */
export const defaultUser = "default";

/** Names of users: short, in lower case, and safe in logs, file names and addresses. */
export const userNamePattern = /^[a-z0-9](?:[a-z0-9._@+-]{0,62}[a-z0-9])?$/;

/** A user as resources name their owner: null for the implicit one (app-server.md section 0). */
export function createdBy(userId: string): string | null {
  return userId === defaultUser ? null : userId;
}
