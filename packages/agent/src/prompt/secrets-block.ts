export interface PromptSecret {
  /** Environment variable with the placeholder. */
  variable: string;
  description: string | null;
  /** Allowed hosts; null: those of the network policy. */
  hosts: readonly string[] | null;
}

const most = 100;

/** The secrets' names for the prompt, never their values. */
export function secretsBlock(secrets: readonly PromptSecret[]): string {
  // Sorted, because a replay gets them in another order.
  const sorted = secrets.toSorted((a, b) => (a.variable < b.variable ? -1 : 1));
  const lines = sorted.slice(0, most).map(({ variable, description, hosts }) => {
    const what = description ? `: ${description.replaceAll(/\s+/g, " ").slice(0, 200)}` : "";
    return `* $${variable}${what} (${hosts ? `for ${hosts.slice(0, 5).join(", ")}` : "for allowed hosts"})`;
  });
  return `<SECRETS>
These environment variables stand for secrets. Each holds a placeholder; the sandbox's proxy puts the secret in its place in headers of HTTPS requests to the hosts it is for (Authorization, X-Api-Key, …; \`git\` and \`curl -u\` work), and nowhere else: not in URLs, bodies, files or plain HTTP.
${lines.join("\n")}
</SECRETS>`;
}
