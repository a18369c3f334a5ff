import { spawn } from "@lydell/node-pty";
import headless from "@xterm/headless";
import type { Scene } from "./scenes.ts";

/** The terminal after a scene. */
export type Screen = InstanceType<typeof headless.Terminal>;

const prompt = "\\e[1;32m$\\e[0m";

/**
 * Plays a scene and returns its terminal. Throws, with what was shown, if the scene takes longer
 * than the time or ends with another exit code than 0.
 */
export async function play(
  scene: Scene,
  cwd: string,
  env: Record<string, string>,
  timeoutMs: number,
): Promise<Screen> {
  const screen = new headless.Terminal({
    cols: scene.columns,
    rows: 50,
    scrollback: 10_000,
    allowProposedApi: true,
  });
  const lines = [
    'set -e; . "$DOCS_ROOT/scripts/docs/helpers.sh"',
    `{ ${scene.prepare}; } >/dev/null`,
    `printf '${prompt} %s\\n' ${quote(scene.command)}`,
    scene.command,
  ];
  const pty = spawn("bash", ["-c", lines.join("\n")], {
    name: "xterm-256color",
    cols: scene.columns,
    rows: 50,
    cwd,
    env: { ...env, COLORTERM: "truecolor" },
  });
  const answers = [...(scene.answers ?? [])];
  /** A question is answered once, although it is shown until the answer is. */
  let answered = -1;
  let written = Promise.resolve();
  pty.onData((data) => {
    written = written
      .then(() => new Promise<void>((resolve) => screen.write(data, resolve)))
      .then(() => {
        const { baseY, cursorY } = screen.buffer.active;
        if (baseY + cursorY <= answered || !answers[0]?.shown.test(textBeforeCursor(screen))) return;
        answered = baseY + cursorY;
        pty.write(answers.shift()!.type);
      });
  });
  // The terminal answers questions of the command about itself.
  screen.onData((data) => pty.write(data));
  const code = await new Promise<number | undefined>((resolve) => {
    const timer = setTimeout(() => {
      resolve(undefined);
      pty.kill("SIGKILL");
    }, timeoutMs);
    pty.onExit(({ exitCode }) => {
      clearTimeout(timer);
      resolve(exitCode);
    });
  });
  await written;
  if (code === 0) return screen;
  const how = code === undefined ? `takes longer than ${timeoutMs / 1000} s` : `ends with ${code}`;
  throw new Error(`The picture ${scene.name} ${how}:\n${textBeforeCursor(screen)}`);
}

/** The lines of the terminal up to the cursor. */
function textBeforeCursor({ buffer: { active } }: Screen): string {
  const lines: string[] = [];
  const row = active.baseY + active.cursorY;
  for (let at = Math.max(0, row - 50); at <= row; at++)
    lines.push(active.getLine(at)!.translateToString(true, 0, at === row ? active.cursorX : undefined));
  return lines.join("\n");
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
