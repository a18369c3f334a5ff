import { providerTypes } from "@sandpiper/wire";

/**
 * The hook that the platform installs in a repository with `.openhands/pre-commit.sh`: it runs the
 * repository's earlier hook, then the script. It is recognised by its whole text: with a mark, a
 * hook of a repository would not be asked about.
 */
export const preCommitHook = `#!/bin/sh
# Installed by Sandpiper: runs .openhands/pre-commit.sh
before=$(git rev-parse --git-path hooks)/pre-commit.local
if [ -x "$before" ]; then "$before" "$@" || exit $?; fi
cd "$(git rev-parse --show-toplevel)" && [ -f .openhands/pre-commit.sh ] || exit 0
[ -x .openhands/pre-commit.sh ] && exec ./.openhands/pre-commit.sh "$@"
exec "$(command -v bash || echo sh)" .openhands/pre-commit.sh "$@"
`;

/** The user name of a git service, and the variable with the placeholder of its token. */
export interface GitLogin {
  user: string;
  variable: string;
}

/** The setting that gives git the token's placeholder; the egress proxy replaces it. */
export function toCredentialHelper({ user, variable }: GitLogin): string {
  return `!f() { test "$1" = get && test -n "$${variable}" && printf 'username=%s\npassword=%s\n' '${user}' "$${variable}"; }; f`;
}

/**
 * Whether a setting is the one of a clone of the platform. Only tokens of git services count: the
 * proxy fills them in for the hosts of their service alone.
 */
export function isOwnCredentialHelper(text: string): boolean {
  const variable = providerTypes
    .map((provider) => `${provider.toUpperCase()}_TOKEN`)
    .find((name) => text.includes(`"$${name}"`));
  const user = / '([\w.@+-]{0,200})' "/.exec(text)?.[1];
  return variable !== undefined && user !== undefined && text === toCredentialHelper({ user, variable });
}
