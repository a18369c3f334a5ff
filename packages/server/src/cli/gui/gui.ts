import { connect } from "../connect.ts";
import { Interruption } from "../interruption.ts";
import { canvasVersion, loadCanvas } from "./canvas-package.ts";
import { Front } from "./front.ts";

export interface GuiOptions {
  /** 0 takes a free one. */
  port: number;
}

/**
 * `sandpiper gui`: serves the released Agent Canvas and the server on one address until a signal
 * ends it. Throws CliError when npm, the port or the server fails.
 */
export async function gui({ port }: GuiOptions): Promise<void> {
  const interruption = new Interruption();
  const { signal } = interruption;
  await interruption.during(async () => {
    const files = await loadCanvas(signal);
    signal.throwIfAborted();
    const { client, close } = await connect({ works: true, stays: true });
    try {
      // A wrong address or key is told here instead of in the browser.
      await client.json("GET", "/api/keys/current", { signal });
      const front = await Front.start({ files, client, origins: originsOf(client.url), port });
      try {
        process.stdout.write(
          `Agent Canvas ${canvasVersion}, for one browser: ${front.openingUrl}\n` +
            `Other browsers log in with an API key: ${front.url}\n`,
        );
        await untilInterrupted(interruption);
      } finally {
        await front.close();
      }
    } finally {
      await close();
    }
  });
}

/** Resolves at the first stop signal. */
function untilInterrupted(interruption: Interruption): Promise<void> {
  return new Promise((resolve) => {
    interruption.gently = resolve;
    if (interruption.exitCode !== undefined) resolve();
  });
}

/** The addresses that the server's answers may name: its own, and the one it is known by. */
function originsOf(url: string): string[] {
  const known = process.env.SANDPIPER_PUBLIC_URL;
  const urls = known && URL.canParse(known) ? [url, known] : [url];
  return [...new Set(urls.map((each) => new URL(each).origin))];
}
