import { PlatformError } from "@sandpiper/core/errors";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { runToEnd } from "@sandpiper/sandbox/shell/run";

/** The DevTools endpoint of a browser in a sandbox. */
export interface Launched {
  port: number;
  /** WebSocket path; it cannot be guessed. */
  path: string;
  /** The browser was already running. */
  found: boolean;
  /** The sandbox's token for its proxy. */
  proxy?: { username: string; password: string };
}

/** Start-up time on a busy machine, seconds. */
const startSeconds = 30;

/** Page size in CSS pixels. */
export const viewport = { width: 1280, height: 800 };

/** Its own sandbox is off: the process tree already runs in one. It makes no calls home. */
const flags = [
  "--headless=new --no-sandbox --remote-debugging-port=0 --remote-debugging-address=127.0.0.1",
  "--disable-dev-shm-usage --disable-gpu --disable-site-isolation-trials --renderer-process-limit=4",
  "--disable-features=PreconnectToSearch,IsolateOrigins,site-per-process,Translate,MediaRouter,OptimizationHints,Prerender2,AutofillServerCommunication",
  "--no-first-run --no-default-browser-check --disable-background-networking --disable-component-update --disable-sync",
  "--disable-default-apps --disable-extensions --disable-breakpad --disable-crash-reporter --disable-client-side-phishing-detection",
  "--metrics-recording-only --password-store=basic --use-mock-keychain --mute-audio --hide-scrollbars --log-level=3",
  `--window-size=${viewport.width},${viewport.height}`,
].join(" ");

/** Browsers that work in a sandbox; Ubuntu's `chromium-browser` only points to a snap. */
export const browserPrograms = [
  "/usr/lib/chromium/chromium",
  "/usr/bin/google-chrome-stable",
  "/usr/bin/google-chrome",
  "/usr/local/bin/chromium",
];

/**
 * Finds or starts the browser of folder $1. Prints how, port, path and proxy address, one per line.
 * The proxy token stays out of the process list.
 */
const script = `dir=$1; profile=$dir/profile; active=$profile/DevToolsActivePort
umask 077; mkdir -p -- "$profile" || exit 1
tell() { echo "$1"; sed -n 1,2p "$active"; echo "\${http_proxy:-}"; exit 0; }
pid=$(cat "$dir/pid" 2>/dev/null)
mine() { [ -n "$pid" ] && tr '\\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF -- "$profile"; }
if mine; then [ -s "$active" ] && tell found; kill -9 -- "-$pid"; fi
program=
# First Debian's own, without the launcher around it, which wants files of /etc that a host sandbox does not show.
for name in /usr/lib/chromium/chromium chromium chromium-browser google-chrome-stable google-chrome chrome headless_shell; do
  program=$(command -v "$name") && break
done
[ -n "$program" ] || exit 100
rm -f "$active" "$profile"/Singleton*
[ -z "\${http_proxy:-}" ] || set -- "$@" "--proxy-server=http://\${http_proxy##*@}"
if [ ! -e /etc/fonts/fonts.conf ]; then
  echo "<fontconfig><dir>/usr/share/fonts</dir><dir>/usr/local/share/fonts</dir><cachedir>$dir/fonts</cachedir></fontconfig>" >"$dir/fonts.conf"
  export FONTCONFIG_FILE="$dir/fonts.conf"
fi
shift
export XDG_CONFIG_HOME="$dir/config" XDG_CACHE_HOME="$dir/cache"
cd "$dir" || exit 1
setsid "$program" ${flags} "--user-data-dir=$profile" "$@" about:blank </dev/null >"$dir/log" 2>&1 &
pid=$!; echo "$pid" >"$dir/pid"
tries=0
while [ "$tries" -lt ${startSeconds * 20} ]; do
  [ "$(sed -n '$=' "$active" 2>/dev/null || echo 0)" = 2 ] && tell started
  kill -0 "$pid" 2>/dev/null || break
  sleep 0.05; tries=$((tries + 1))
done
tail -c 600 "$dir/log" >&2; kill -9 -- "-$pid" 2>/dev/null; exit 101`;

const endScript = `dir=$1; pid=$(cat "$dir/pid" 2>/dev/null)
[ -n "$pid" ] && tr '\\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" 2>/dev/null | grep -qF -- "$dir/profile" && kill -9 -- "-$pid"
rm -rf -- "$dir"`;

/** Starts or finds the browser in `dir`. Throws BrowserUnavailable, and what `exec` throws. */
export async function launchBrowser(sandbox: Sandbox, dir: string, signal?: AbortSignal): Promise<Launched> {
  const { code, stdout, stderr } = await runToEnd(sandbox, command(sandbox, script, dir), {
    timeoutMs: (startSeconds + 10) * 1_000,
    maxOutputBytes: 8_192,
    ...(signal && { signal }),
  });
  if (code === 100) throw new PlatformError("BrowserMissing");
  const [how, port = "", path = "", proxy = ""] = stdout.toString().split("\n");
  if (code !== 0 || !/^\d{1,5}$/.test(port) || !/^\/devtools\/browser\/[\w-]{1,100}$/.test(path)) {
    throw new PlatformError("BrowserNotStarted", { output: stderr.toString().trim().slice(-600) });
  }
  const { username = "", password = "" } = URL.parse(proxy) ?? {};
  return {
    port: Number(port),
    path,
    found: how === "found",
    ...(username && {
      proxy: { username: decodeURIComponent(username), password: decodeURIComponent(password) },
    }),
  };
}

/** Ends the browser of a folder and removes its files. Throws what `exec` throws. */
export async function endBrowser(sandbox: Sandbox, dir: string): Promise<void> {
  await runToEnd(sandbox, command(sandbox, endScript, dir), { timeoutMs: 10_000, maxOutputBytes: 1_024 });
}

function command(sandbox: Sandbox, text: string, dir: string) {
  return {
    argv: [...(sandbox.shell ?? ["sh"]), "-c", text, "sh", dir],
    cwd: "/",
    env: { LC_ALL: "C.UTF-8" },
  };
}
