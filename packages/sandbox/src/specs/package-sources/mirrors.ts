import type { AllowRule, SandboxFile } from "../../driver.ts";
import { mavenSettings } from "../../network/environment.ts";
import type { Redirect } from "../../network/proxy/redirect.ts";

/** Package managers, and archives of apt, that can be pointed to a mirror. */
export const mirrorKinds = [
  ...(["pip", "npm", "go", "cargo", "gem", "maven"] as const),
  ...(["debian", "debian-security", "ubuntu"] as const),
] as const;
export type MirrorKind = (typeof mirrorKinds)[number];
/** The address of the mirror of each of them, without user information. */
export type PackageMirrors = Readonly<Partial<Record<MirrorKind, URL>>>;

/** What makes sandboxes use the operator's mirrors. */
export interface MirrorConfig {
  /** The mirrors' hosts, which may have private addresses. */
  rules: AllowRule[];
  /** Variables, for package managers that have some. */
  env: Record<string, string>;
  /** Configuration files, for the others. */
  files: SandboxFile[];
  /** Addresses that the proxy replaces by a mirror. */
  redirects: Redirect[];
}

const gemFile = "/etc/sandpiper/gemrc";
/** Gradle has no variable for it; it reads every script of this folder. */
const gradleFile = "~/.gradle/init.d/sandpiper.gradle";

/**
 * What apt in images asks for. It checks signatures and does not need TLS, so that the proxy can
 * ask a mirror instead, whatever release an image has.
 */
const aptArchives = {
  debian: ["http://deb.debian.org/debian/"],
  "debian-security": [
    "http://deb.debian.org/debian-security/",
    "http://security.debian.org/debian-security/",
    "http://security.debian.org/",
  ],
  ubuntu: ["http://archive.ubuntu.com/ubuntu/", "http://security.ubuntu.com/ubuntu/"],
};

/** A sandbox reaches only its own loopback interface, past the proxy. */
const loopback = /^(localhost|.+\.localhost|127(\.\d+){3}|\[::1\])$/;

/**
 * Parses `npm=https://…,pip=https://…`. Undefined for a text that is not such a list, or that names
 * loopback.
 */
export function parseMirrors(text: string): PackageMirrors | undefined {
  const mirrors: Partial<Record<MirrorKind, URL>> = {};
  for (const entry of text.split(",")) {
    const [, name, address = ""] = /^\s*([a-z-]+)=(\S+)\s*$/.exec(entry) ?? [];
    const kind = mirrorKinds.find((one) => one === name);
    const url = URL.parse(address);
    const isPlain = url && /^https?:$/.test(url.protocol) && !url.username && !url.password && !url.hash;
    if (!kind || mirrors[kind] || !isPlain || loopback.test(url.hostname) || /["'<>\\]/.test(address))
      return undefined;
    mirrors[kind] = url;
  }
  return mirrors;
}

/** Variables, files and rules for sandboxes. */
export function toMirrorConfig(mirrors: PackageMirrors): MirrorConfig {
  const { pip, npm, go, cargo, gem, maven } = mirrors;
  return {
    rules: Object.values(mirrors).map(toRule),
    env: {
      ...(pip && { PIP_INDEX_URL: pip.href, UV_DEFAULT_INDEX: pip.href }),
      ...(pip?.protocol === "http:" && { PIP_TRUSTED_HOST: pip.host, UV_INSECURE_HOST: pip.host }),
      ...(npm && { npm_config_registry: npm.href, YARN_NPM_REGISTRY_SERVER: npm.href }),
      ...(go && { GOPROXY: withoutSlash(go) }),
      ...(gem && { GEMRC: gemFile, BUNDLE_MIRROR__ALL: gem.href }),
    },
    files: [
      // Cargo has no variable for it; it reads this file from every folder.
      ...(cargo ? [{ path: "/.cargo/config.toml", content: cargoConfig(cargo) }] : []),
      ...(gem ? [{ path: gemFile, content: `:sources:\n- ${gem.href}\n` }] : []),
      mavenSettings(maven),
      ...(maven ? [{ path: gradleFile, content: gradleScript(maven) }] : []),
    ],
    redirects: Object.entries(aptArchives).flatMap(([kind, archives]) => {
      const mirror = mirrors[kind as MirrorKind];
      return mirror ? archives.map((from) => ({ from, to: `${withoutSlash(mirror)}/` })) : [];
    }),
  };
}

function toRule({ hostname, port, protocol }: URL): AllowRule {
  return {
    host: hostname.replace(/^\[|\]$/g, ""),
    ports: [Number(port || (protocol === "https:" ? 443 : 80))],
    methods: null,
    private: true,
  };
}

function cargoConfig(url: URL): string {
  const registry = `sparse+${withoutSlash(url)}/`;
  return `[source.crates-io]\nreplace-with = "mirror"\n\n[source.mirror]\nregistry = ${JSON.stringify(registry)}\n`;
}

/** Replaces the address of each repository, and the one of plugins that Gradle uses without any. */
function gradleScript({ href }: URL): string {
  return `def mirror = ${JSON.stringify(href).replaceAll("$", "\\$")}
def redirect = { repository ->
  if (!(repository instanceof MavenArtifactRepository) || repository.url.scheme == 'file') return
  repository.url = mirror
  if (repository.hasProperty('allowInsecureProtocol')) repository.allowInsecureProtocol = true
}
settingsEvaluated { settings ->
  def plugins = settings.pluginManagement.repositories
  if (plugins.empty) plugins.maven { url = mirror }
  plugins.all redirect
  if (settings.hasProperty('dependencyResolutionManagement'))
    settings.dependencyResolutionManagement.repositories.all redirect
}
allprojects {
  buildscript.repositories.all redirect
  repositories.all redirect
}
`;
}

function withoutSlash({ href }: URL): string {
  return href.endsWith("/") ? href.slice(0, -1) : href;
}
