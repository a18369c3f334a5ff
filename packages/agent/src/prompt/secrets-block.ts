/** A secret as the model knows it. */
export interface PromptSecret {
  /** Environment variable that holds its placeholder. */
  variable: string;
  description: string | null;
  /** Hosts to which it goes; null: those that the network policy names. */
  hosts: readonly string[] | null;
}

const most = 100;

/** What the prompt says of secrets: names, never values. */
export function secretsBlock(secrets: readonly PromptSecret[]): string {
  // In one order, wherever they come from: a replay has all of them from the user.
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
