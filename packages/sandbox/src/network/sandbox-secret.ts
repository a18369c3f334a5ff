export interface SecretInfo {
  name: string;
  description: string | null;
  /** Where the egress proxy may send it (`example.com`, `*.example.com`); null: wherever the sandbox's allow rules name a host, on port 443. */
  hosts: readonly string[] | null;
}

/** A secret as it applies in one sandbox. */
export interface SandboxSecret extends SecretInfo {
  /** Environment variable that holds the placeholder inside: `name`, and `GITHUB_TOKEN` for `github_token`. */
  variable: string;
  value: string;
  /** What goes out in the place of the placeholder, where that is not `value`: of Bitbucket's `user:password` the password. */
  outgoingValue?: string;
}
