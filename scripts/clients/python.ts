import { execFileSync } from "node:child_process";
import { existsSync, globSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

const packages = ["openhands-sdk", "openhands-tools", "openhands-workspace"];

/** The released SDKs that are tested, with requirements that the registry may not have. */
export const sdks: readonly { version: string; overrides: readonly string[] }[] = [
  { version: "1.43.1", overrides: [] },
  { version: "1.49.1", overrides: [] },
  // It asks for a certifi of the future; any certifi does.
  { version: "1.58.2", overrides: ["certifi"] },
];

/**
 * The first interpreter of Python 3.12 or newer that runs, on the path or installed by pyenv.
 * Undefined when there is none: a name on the path may be a shim without an interpreter.
 */
export function findPython(): string | undefined {
  const pyenv = globSync(join(process.env.PYENV_ROOT ?? join(homedir(), ".pyenv"), "versions/*/bin/python3"));
  const test = "import sys, venv; assert sys.version_info >= (3, 12); print(sys.executable)";
  for (const name of ["python3.12", "python3.13", "python3.14", "python3", ...pyenv.sort()]) {
    try {
      return execFileSync(name, ["-c", test], {
        encoding: "utf8",
        stdio: ["ignore", "pipe", "ignore"],
      }).trim();
    } catch {
      // The interpreter is missing, a shim, or too old.
    }
  }
  return undefined;
}

/** The interpreter of a virtual environment with the SDK, installed at first use. */
export function installSdk(
  python: string,
  cache: string,
  { version, overrides }: (typeof sdks)[number],
): string {
  const folder = join(cache, `python-${version}`);
  const interpreter = join(folder, "bin/python");
  const complete = join(folder, "complete");
  if (existsSync(complete)) return interpreter;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(cache, { recursive: true });
  const uv = installUv(python, cache);
  process.stderr.write(`Installing the Python SDK ${version} …\n`);
  run(uv, ["venv", "--quiet", "--python", python, folder]);
  const file = join(folder, "overrides.txt");
  writeFileSync(file, overrides.map((name) => `${name}\n`).join(""));
  run(uv, [
    ...["pip", "install", "--quiet", "--python", interpreter],
    ...(overrides.length > 0 ? ["--override", file] : []),
    ...packages.map((name) => `${name}==${version}`),
  ]);
  writeFileSync(complete, "");
  return interpreter;
}

/** pip cannot override a requirement; uv can. */
function installUv(python: string, cache: string): string {
  const folder = join(cache, "uv");
  const uv = join(folder, "bin/uv");
  if (existsSync(uv)) return uv;
  run(python, ["-m", "venv", folder]);
  run(join(folder, "bin/pip"), ["install", "--quiet", "--disable-pip-version-check", "uv"]);
  return uv;
}

function run(program: string, args: string[]): void {
  execFileSync(program, args, { stdio: ["ignore", "inherit", "inherit"] });
}
