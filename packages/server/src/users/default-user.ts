/** The implicit user of a self-hosted server. */
export const defaultUser = "default";

/** User names are short, lower case, and safe in logs, file names and URLs. */
export const userNamePattern = /^[a-z0-9](?:[a-z0-9._@+-]{0,62}[a-z0-9])?$/;

/** The owner in resources: null for the default user (app-server.md section 0). */
export function createdBy(userId: string): string | null {
  return userId === defaultUser ? null : userId;
}
