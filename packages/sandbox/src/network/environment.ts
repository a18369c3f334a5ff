import { createHmac } from "node:crypto";
import type { SandboxFile } from "../driver.ts";
import type { ProxiedSandbox } from "./api.ts";
import { toPlaceholders } from "./credentials.ts";
import { needsTermination } from "./policy/policy.ts";

/** Port of the proxy on the loopback address inside every sandbox. */
export const proxyPort = 3128;

/** Paths inside a sandbox of the proxy's certificate, alone and with all public ones. */
export const caFile = "/etc/sandpiper/ca.pem";
export const caBundleFile = "/etc/sandpiper/bundle.pem";

const mavenSettingsFile = "/etc/sandpiper/maven-settings.xml";
/** Has the token for programs that need it apart from the proxy's address. */
const tokenVariable = "SANDPIPER_PROXY_TOKEN";

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
  return {
    ...{ http_proxy: proxy, https_proxy: proxy, HTTP_PROXY: proxy, HTTPS_PROXY: proxy },
    ...{ GRADLE_OPTS: javaOptions(token), MAVEN_ARGS: `-gs ${mavenSettingsFile}` },
    [tokenVariable]: token,
  };
}

/**
 * Java reads no variables for a proxy, and has certificates of its own. It takes a password for
 * tunnels only with an empty list of forbidden schemes.
 */
function javaOptions(token: string): string {
  const proxy = ["http", "https"].flatMap((scheme) => [
    `-D${scheme}.proxyHost=127.0.0.1`,
    `-D${scheme}.proxyPort=${proxyPort}`,
    `-D${scheme}.proxyUser=${untrustingUser}`,
    `-D${scheme}.proxyPassword=${token}`,
  ]);
  return [...proxy, "-Djdk.http.auth.tunneling.disabledSchemes="].join(" ");
}

/** Global settings of Maven, which its user's settings override, with the proxy and a mirror. */
export function mavenSettings(mirror: URL | undefined): SandboxFile {
  const proxy = (scheme: string) =>
    `<proxy><id>${scheme}</id><protocol>${scheme}</protocol><host>127.0.0.1</host><port>${proxyPort}</port><username>${untrustingUser}</username><password>\${env.${tokenVariable}}</password><nonProxyHosts>localhost|127.0.0.1</nonProxyHosts></proxy>`;
  const address = mirror?.href.replaceAll("&", "&amp;");
  const mirrors = address
    ? `<mirror><id>mirror</id><mirrorOf>*</mirrorOf><url>${address}</url></mirror>`
    : "";
  const content = `<settings><proxies>${proxy("http")}${proxy("https")}</proxies><mirrors>${mirrors}</mirrors></settings>\n`;
  return { path: mavenSettingsFile, content };
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
