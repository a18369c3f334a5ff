/** A home folder. */
const home = String.raw`(?:~[\w.-]{0,40}|\$\{?HOME\}?|/root|/home/[^/]{1,60}|/Users/[^/]{1,60}|/var/lib/[\w-]{1,40})`;

const credentialPaths = [
  // Private keys: neither public keys nor known hosts.
  String.raw`${home}?/?(?:\.ssh)/(?!authorized_keys|known_hosts|config$|environment)(?![^/]{0,200}\.pub$)[^/]{1,200}`,
  String.raw`${home}/\.ssh/?`,
  String.raw`${home}/\.(?:aws|azure|gnupg|password-store)(?:/.{0,300})?`,
  String.raw`${home}/\.(?:netrc|npmrc|pypirc|git-credentials|pgpass|my\.cnf|vault-token|yarnrc\.yml|s3cfg|boto|rhosts)`,
  String.raw`${home}/\.config/(?:git/credentials|gcloud(?:/.{0,300})?|gh/hosts\.yml|hub|glab-cli/.{1,100}|op/.{1,100}|sops/.{1,100})`,
  String.raw`${home}/\.(?:kube/config|docker/config\.json|cargo/credentials(?:\.toml)?|gem/credentials|m2/settings(?:-security)?\.xml|terraform\.d/credentials\.tfrc\.json|composer/auth\.json|gradle/gradle\.properties)`,
  String.raw`${home}/.{0,200}/(?:Cookies|Login Data|logins\.json|key4\.db|wallet\.dat)`,
  String.raw`${home}/\.(?:bash|zsh|python|psql|mysql|node_repl)_history`,
  String.raw`/etc/(?:g?shadow-?|sudoers(?:\.d/.{1,100})?|krb5\.keytab|ssh/ssh_host_[\w]{1,40}_key|kubernetes/.{0,100})`,
  String.raw`/proc/(?:self|thread-self|\d{1,10}|\*|\$[^/]{1,40}|\[[^/]{1,40})/(?:environ|mem)`,
  String.raw`(?:/var)?/run/secrets(?:/.{0,300})?`,
  String.raw`(?:.{0,300}/)?(?:id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?|\.git-credentials|\.netrc)`,
  String.raw`(?:.{0,300}/)?\.env(?:\.(?!example$|sample$|template$|dist$|defaults?$|schema$|test$|ci$)[\w-]{1,40}){0,3}`,
];
const credential = new RegExp(`^(?:${credentialPaths.join("|")})$`);

/** Longest path that is judged, in characters. */
const maxPath = 1_000;

/** Whether a file holds keys, tokens or passwords. */
export function isCredentialPath(path: string): boolean {
  const plain = plainPath(path);
  return plain !== undefined && credential.test(plain);
}

const startupPaths = [
  String.raw`${home}/\.(?:bash(?:rc|_profile|_login|_logout|_aliases)|profile|zsh(?:rc|env)|zprofile|zlogin|kshrc|inputrc|xinitrc|xprofile|pam_environment)`,
  String.raw`${home}/\.config/(?:autostart|systemd|fish/config\.fish|environment\.d)(?:/.{0,200})?`,
  String.raw`${home}/\.ssh/(?:authorized_keys2?|config|rc|environment)`,
  String.raw`${home}/Library/LaunchAgents/.{1,200}`,
  String.raw`/etc/(?:profile|profile\.d/.{1,200}|bash\.bashrc|environment|rc\.local|crontab|anacrontab|cron\.[\w]{1,20}/.{1,200}|systemd/.{1,200}|init\.d/.{1,200}|ld\.so\.preload|ld\.so\.conf(?:\.d/.{1,100})?|xdg/autostart/.{1,100})`,
  String.raw`/var/spool/cron(?:/.{1,200})?`,
  String.raw`/(?:lib|usr/lib)/systemd/.{1,200}`,
  String.raw`(?:.{0,300}/)?\.git/(?:hooks/(?!.{1,100}\.sample$).{1,200}|config)`,
];
const startup = new RegExp(`^(?:${startupPaths.join("|")})$`);

/** Whether a file runs later by itself: on login, on a schedule, by git. */
export function isStartupPath(path: string): boolean {
  const plain = plainPath(path);
  return plain !== undefined && startup.test(plain);
}

const system =
  /^\/(?:etc\/(?:passwd|group|shadow|gshadow|sudoers(?:\.d\/.*)?|hosts|resolv\.conf|pam\.d\/.*|ssh\/.*|apt\/.*|ssl\/.*|nsswitch\.conf|security\/.*)|boot(?:\/.*)?|proc\/sys(?:\/.*)?|proc\/sysrq-trigger|sys\/.*|(?:usr\/)?(?:s?bin|lib(?:64)?)\/.*|usr\/local\/share\/ca-certificates\/.*)$/;

/** Whether a file belongs to the system. */
export function isSystemPath(path: string): boolean {
  const plain = plainPath(path);
  return plain !== undefined && (system.test(plain) || isDevice(plain));
}

/** Whether a file is a disk or the machine's memory. */
export function isDevice(path: string): boolean {
  return /^\/dev\/(?:[shvx]v?d[a-z]|nvme\d|mmcblk\d|disk\/|mapper\/|md\d|loop\d|dm-\d|mem$|kmem$|port$|rdisk\d|disk\d)/.test(
    path,
  );
}

const registryPath = new RegExp(
  String.raw`^(?:${home}/\.(?:npmrc|yarnrc(?:\.yml)?|pypirc|pip/pip\.conf|config/pip/pip\.conf|cargo/config(?:\.toml)?|gemrc|bunfig\.toml)|/etc/(?:pip\.conf|npmrc)|(?:.{0,300}/)?(?:\.npmrc|\.yarnrc\.yml|pip\.conf|\.pypirc|\.cargo/config(?:\.toml)?))$`,
);

/** Whether a file configures where packages come from. */
export function isRegistryPath(path: string): boolean {
  const plain = plainPath(path);
  return plain !== undefined && registryPath.test(plain);
}

/** Whether a folder is the root, a home, the workspace, a parent of the project or system. */
export function isRootOfAll(path: string): boolean {
  const plain = plainPath(path);
  if (plain === undefined) return false;
  const bare = plain
    .replace(/(?:\/?(?:\*|\.\*|\.\?\?\*|\.\[!\.\]\*|\{\*,\.\*\}))$/, "")
    .replace(/(?<=.)\/$/, "");
  if (plain.startsWith("/") && bare === "") return true;
  return rootOfAll.test(bare);
}

const rootOfAll = new RegExp(
  String.raw`^(?:/|\.\.(?:/\.\.){0,20}|${home}|/(?:home|root|etc|usr|var|bin|sbin|lib|lib64|boot|opt|dev|proc|sys|srv|mnt|Users|System|workspace)|/usr/(?:bin|lib|local|share|sbin)|/var/(?:lib|log|spool)|/home/\*|[A-Za-z]:[\\/]{0,2}(?:Windows)?)$`,
);

/** The path without empty, `.` and `..` parts; undefined when it cannot be a path. */
function plainPath(path: string): string | undefined {
  if (path.length === 0 || path.length > maxPath || !/[.~/$_:]/.test(path)) return undefined;
  if (!/\/[./]|\/$|^\./.test(path)) return path;
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "." || (part === "" && parts.length > 0)) continue;
    if (
      part === ".." &&
      parts.length > 0 &&
      !["..", "", "~"].includes(parts.at(-1)!) &&
      !/[$*]/.test(parts.at(-1)!)
    )
      parts.pop();
    else if (part === ".." && parts.length === 1 && parts[0] === "") continue;
    else parts.push(part);
  }
  const joined = parts.join("/");
  return joined === "" && path.startsWith("/")
    ? "/"
    : path.endsWith("/") && joined !== ""
      ? `${joined}/`
      : joined;
}
