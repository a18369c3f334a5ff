import { PlatformError } from "@sandpiper/core/errors";

/** Variables that programs in a sandbox depend on: a placeholder would break them. */
const reservedPattern =
  /^(?:PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_\w+|TERM|PWD|OLDPWD|IFS|ENV|BASH_ENV|PS[0-4]|PROMPT_COMMAND|SHELLOPTS|BASHOPTS|TMPDIR|LD_\w+|NODE_OPTIONS|NODE_EXTRA_CA_CERTS|NODE_USE_ENV_PROXY|SSL_CERT_FILE|CURL_CA_BUNDLE|GIT_SSL_CAINFO|REQUESTS_CA_BUNDLE|PIP_CERT|NPM_CONFIG_CAFILE|CARGO_HTTP_CAINFO|(?:https?|no|all|ftp)_proxy|__proto__)$/i;

const namePattern = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;

/** Throws InvalidParameter when the name is invalid or reserved. */
export function checkSecretName(name: string): void {
  if (!namePattern.test(name)) throw new PlatformError("SecretNameInvalid");
  if (reservedPattern.test(name)) throw new PlatformError("SecretNameReserved", { name });
}
