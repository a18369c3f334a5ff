import { createHmac } from "node:crypto";
import type { ProxiedSandbox } from "./api.ts";
import { toPlaceholders } from "./credentials.ts";
import { needsTermination } from "./policy/policy.ts";

/** Port of the proxy on the loopback address inside every sandbox. */
export const proxyPort = 3128;

/** Paths inside a sandbox of the proxy's certificate, alone and with all public ones. */
export const caFile = "/etc/sandpiper/ca.pem";
export const caBundleFile = "/etc/sandpiper/bundle.pem";

/**
 * Policy files of Chromium and Chrome, which ignore the variables and bring their own certificates.
 */
export const browserPolicyFiles = ["chromium", "opt/chrome"].map(
  (name) => `/etc/${name}/policies/managed/sandpiper.json`,
);

/** Derives a sandbox's proxy token from its session key without revealing the key. */
export function egressToken(sessionKey: string): string {
  return createHmac("sha256", sessionKey).update("egress proxy").digest("base64url");
}

/** Name with the token of processes that do not trust the proxy's certificate. */
export const untrustingUser = "plain";

/** Variables for curl, git, pip, npm, apt, Go, Rust and Node programs. */
export function proxyEnvironment({ policy, token }: ProxiedSandbox): Record<string, string> {
  if (policy.mode === "none") return {};
  const direct = "localhost,127.0.0.1,::1";
  // Users may have no secrets yet; the certificate would replace those of the image for nothing.
  const trusts = needsTermination({ ...policy, userSecrets: false });
  return {
    ...(trusts ? trustingEnvironment(token) : proxyVariables(untrustingUser, token)),
    no_proxy: direct,
    NO_PROXY: direct,
    NODE_USE_ENV_PROXY: "1",
    ...toPlaceholders(
      policy.credentials.map(({ name }) => ({ variable: name })),
      token,
    ),
  };
}

/** Variables of processes that trust the proxy's certificate, and so may send secrets. */
export function trustingEnvironment(token: string): Record<string, string> {
  return { ...proxyVariables("sandbox", token), ...certificateVariables };
}

function proxyVariables(user: string, token: string): Record<string, string> {
  const proxy = `http://${user}:${token}@127.0.0.1:${proxyPort}`;
  const java = javaOptions(token);
  return {
    ...{ http_proxy: proxy, https_proxy: proxy, HTTP_PROXY: proxy, HTTPS_PROXY: proxy },
    ...{ MAVEN_OPTS: java, GRADLE_OPTS: java },
  };
}

/**
 * Java reads no variables for a proxy, and has certificates of its own. Its own switch forbids
 * passwords for tunnels unless it is empty.
 */
function javaOptions(token: string): string {
  const proxy = ["http", "https"].flatMap((scheme) => [
    `-D${scheme}.proxyHost=127.0.0.1`,
    `-D${scheme}.proxyPort=${proxyPort}`,
    `-D${scheme}.proxyUser=${untrustingUser}`,
    `-D${scheme}.proxyPassword=${token}`,
  ]);
  return [
    ...proxy,
    "-Djdk.http.auth.tunneling.disabledSchemes=",
    "-Daether.connector.http.useSystemProperties=true",
  ].join(" ");
}

/** Variables that make programs trust the proxy's certificate. */
const certificateVariables = {
  SSL_CERT_FILE: caBundleFile,
  CURL_CA_BUNDLE: caBundleFile,
  GIT_SSL_CAINFO: caBundleFile,
  REQUESTS_CA_BUNDLE: caBundleFile,
  PIP_CERT: caBundleFile,
  // Overrides a cafile in the npm configuration, which would make npm ignore NODE_EXTRA_CA_CERTS.
  NPM_CONFIG_CAFILE: caBundleFile,
  CARGO_HTTP_CAINFO: caBundleFile,
  NODE_EXTRA_CA_CERTS: caFile,
};
