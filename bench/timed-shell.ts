import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { openNullDevice } from "@sandpiper/sandbox/kernel/null-device";

/**
 * A small bash that times commands itself, excluding this process's share, which would be larger (a
 * fork copies Node's page tables).
 */
export class TimedShell {
  readonly #child: ChildProcess;

  constructor() {
    this.#child = spawn("bash", ["--norc", "--noprofile"], {
      // A runtime that is timed makes the sandbox's user the owner of its stdin.
      stdio: ["pipe", "pipe", "inherit", openNullDevice()],
      env: { PATH: process.env.PATH, LC_ALL: "C" },
    });
    this.#child.stdout!.setEncoding("utf8");
    // Output goes to a file: a container that is started would hold a pipe open.
    this.#child.stdin!.write("log=$(mktemp); trap 'rm -f \"$log\"' EXIT\n");
  }

  /** Runs shell text without stdin; returns ms. Throws on failure. One call at a time. */
  async time(text: string): Promise<number> {
    const answer = once(this.#child.stdout!, "data");
    this.#child.stdin!.write(
      [
        `began=$EPOCHREALTIME; { ${text}\n} <&3 3<&- >"$log" 2>&1; code=$?; ended=$EPOCHREALTIME`,
        'echo "$code $((${ended/./} - ${began/./})) $(base64 -w0 "$log")"\n',
      ].join("\n"),
    );
    const [code, microseconds, output = ""] = String((await answer)[0])
      .trim()
      .split(" ");
    if (code !== "0") throw new Error(`${text} ended with ${code}: ${Buffer.from(output, "base64")}`);
    return Number(microseconds) / 1_000;
  }

  close(): void {
    this.#child.stdin!.end();
  }
}
