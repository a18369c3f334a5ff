/** Requests of a measuring process to a server process, over their channel. */
export interface Order {
  /** Events per second; 0: as many as go, with so many on their way at once. */
  perSecond: number;
  atOnce?: number;
  ms: number;
  /** The conversations that they go to in turn: the first so many. */
  conversations: number;
  /** Length of each event's text. */
  length: number;
  /** Whether a bare server stores them too; the platform always does. */
  store?: boolean;
}

export interface Done {
  events: number;
  ms: number;
}

/** Calls `one` at a rate, or always again as earlier calls end; resolves when all have ended. */
export async function drive(
  { perSecond, atOnce = 1, ms }: Order,
  one: (index: number) => unknown,
): Promise<Done> {
  const begin = performance.now();
  const over = () => performance.now() - begin >= ms;
  let events = 0;
  if (perSecond === 0) {
    const lane = async () => {
      while (!over()) await one(events++);
    };
    await Promise.all(Array.from({ length: atOnce }, lane));
    return { events, ms: performance.now() - begin };
  }
  const open = new Set<Promise<unknown>>();
  await new Promise<void>((resolve) => {
    const tick = () => {
      const due = (Math.min(performance.now() - begin, ms) * perSecond) / 1000;
      while (events < due) {
        const work = Promise.resolve(one(events++)).finally(() => open.delete(work));
        open.add(work);
      }
      if (over()) resolve();
      else setTimeout(tick, 1);
    };
    tick();
  });
  await Promise.all(open);
  return { events, ms: performance.now() - begin };
}

/** A text with its creation time on a clock that all processes share. */
export function stamped(length: number): string {
  return `at:${process.hrtime.bigint()};`.padEnd(length, "x");
}

/** The time since a stamped text in a frame was made, ms; undefined for a frame without one. */
export function ageOf(frame: Buffer): number | undefined {
  const start = frame.indexOf("at:");
  if (start < 0) return undefined;
  const end = frame.indexOf(";", start);
  const made = frame.toString("latin1", start + 3, end);
  return /^\d+$/.test(made) ? Number(process.hrtime.bigint() - BigInt(made)) / 1e6 : undefined;
}
