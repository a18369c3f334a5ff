export interface SecretInfo {
  name: string;
  description: string | null;
  /** Hosts (`*.example.com`) that may get it; null: hosts of allow rules, on port 443. */
  hosts: readonly string[] | null;
  /** Headers, in lower case, that may carry it besides those for authentication. */
  headers?: readonly string[] | null;
  /** Its variable holds the value itself, because programs inside must know it. */
  plain?: boolean;
}

/** A secret in one sandbox. */
export interface SandboxSecret extends SecretInfo {
  /** Variable of the placeholder or the value: `name`, or `GITHUB_TOKEN` for `github_token`. */
  variable: string;
  value: string;
  /** Replaces the placeholder instead of `value`: for Bitbucket's `user:password` the password. */
  outgoingValue?: string;
}
