import { createHmac } from "node:crypto";
import type { ProxiedSandbox } from "./api.ts";
import { toPlaceholders } from "./credentials.ts";
import { needsTermination } from "./policy/policy.ts";

/** Port of the proxy on the loopback address inside every sandbox. */
export const proxyPort = 3128;

/** The proxy's own certificate alone, and with all public ones, as they lie inside of a sandbox. */
export const caFile = "/etc/sandpiper/ca.pem";
export const caBundleFile = "/etc/sandpiper/bundle.pem";

/** Where Chromium and Chrome look for what a machine prescribes: they follow no variable and have certificates of their own. */
export const browserPolicyFiles = ["chromium", "opt/chrome"].map(
  (name) => `/etc/${name}/policies/managed/sandpiper.json`,
);

/** The token of a sandbox for the proxy, out of its session key: it tells nothing about that key, and goes when the sandbox goes. */
export function egressToken(sessionKey: string): string {
  return createHmac("sha256", sessionKey).update("egress proxy").digest("base64url");
}

/** Variables that curl, git, pip, npm, apt, Go, Rust and Node programs follow. */
export function proxyEnvironment({ policy, token }: ProxiedSandbox): Record<string, string> {
  if (policy.mode === "none") return {};
  const proxy = `http://sandbox:${token}@127.0.0.1:${proxyPort}`;
  const direct = "localhost,127.0.0.1,::1";
  return {
    http_proxy: proxy,
    https_proxy: proxy,
    HTTP_PROXY: proxy,
    HTTPS_PROXY: proxy,
    no_proxy: direct,
    NO_PROXY: direct,
    NODE_USE_ENV_PROXY: "1",
    ...(needsTermination(policy) ? certificateVariables : {}),
    ...toPlaceholders(
      policy.credentials.map(({ name }) => ({ variable: name })),
      token,
    ),
  };
}

/** Variables by which programs trust the proxy's certificate. */
export const certificateVariables = {
  SSL_CERT_FILE: caBundleFile,
  CURL_CA_BUNDLE: caBundleFile,
  GIT_SSL_CAINFO: caBundleFile,
  REQUESTS_CA_BUNDLE: caBundleFile,
  PIP_CERT: caBundleFile,
  // Goes before a cafile of the machine's or the user's npm configuration, under which npm does not read NODE_EXTRA_CA_CERTS.
  NPM_CONFIG_CAFILE: caBundleFile,
  CARGO_HTTP_CAINFO: caBundleFile,
  NODE_EXTRA_CA_CERTS: caFile,
};
