import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, globSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

const minimumMinor = 12;
const folder = join(import.meta.dirname, "../../.cache/docs-python");

/**
 * The `bin` folder of a virtual environment with the packages, made at the first use. Throws when
 * there is no Python 3.12 or newer, and when pip fails.
 */
export function preparePython(packages: string[]): string {
  const python = findPython();
  const name = createHash("sha256")
    .update(`${python} ${packages.join(" ")}`)
    .digest("hex")
    .slice(0, 12);
  const environment = join(folder, name);
  const bin = join(environment, "bin");
  if (existsSync(join(environment, "complete"))) return bin;
  rmSync(environment, { recursive: true, force: true });
  const call = (program: string, args: string[]) =>
    execFileSync(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  call(python, ["-m", "venv", environment]);
  call(join(bin, "pip"), ["install", "--quiet", "--disable-pip-version-check", ...packages]);
  call("touch", [join(environment, "complete")]);
  return bin;
}

function findPython(): string {
  // Versions that pyenv installed are on the PATH only if the user chose them.
  const pyenv = globSync(join(process.env.PYENV_ROOT ?? join(homedir(), ".pyenv"), "versions/*/bin/python3"));
  for (const name of ["python3", "python3.14", "python3.13", "python3.12", ...pyenv]) {
    try {
      const code = `import sys, venv; assert sys.version_info >= (3, ${minimumMinor}); print(sys.executable)`;
      return execFileSync(name, ["-c", code], {
        encoding: "utf8",
        stdio: ["ignore", "pipe", "ignore"],
      }).trim();
    } catch {
      // The interpreter is missing or too old.
    }
  }
  throw new Error(
    `the page needs Python 3.${minimumMinor} or newer with venv; neither PATH nor pyenv has one: install it.`,
  );
}
