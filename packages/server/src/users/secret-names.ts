import { PlatformError } from "@sandpiper/core/errors";

/** Variables by which programs in a sandbox work, start others, and find the proxy: a placeholder there would break them. */
const reservedPattern =
  /^(?:PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_\w+|TERM|PWD|OLDPWD|IFS|ENV|BASH_ENV|PS[0-4]|PROMPT_COMMAND|SHELLOPTS|BASHOPTS|TMPDIR|LD_\w+|NODE_OPTIONS|NODE_EXTRA_CA_CERTS|NODE_USE_ENV_PROXY|SSL_CERT_FILE|CURL_CA_BUNDLE|GIT_SSL_CAINFO|REQUESTS_CA_BUNDLE|PIP_CERT|NPM_CONFIG_CAFILE|CARGO_HTTP_CAINFO|(?:https?|no|all|ftp)_proxy|__proto__)$/i;

const namePattern = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;

/** Throws InvalidParameter for a name that no secret can have. */
export function checkSecretName(name: string): void {
  if (!namePattern.test(name))
    throw new PlatformError(
      "InvalidParameter",
      "The name of a secret begins with a letter or an underscore and has letters, digits and underscores only, 128 at most.",
    );
  if (reservedPattern.test(name))
    throw new PlatformError(
      "InvalidParameter",
      `${name} is a variable that programs in a sandbox need; choose another name.`,
    );
}
