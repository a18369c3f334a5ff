import { type Profiler, Session } from "node:inspector/promises";

/**
 * Counts the steps of code: how often each of its blocks runs. The count does not depend on the
 * machine. Functions of the engine, such as regular expressions, count as one step.
 */
export class StepCounter {
  readonly #session = new Session();

  static async start(): Promise<StepCounter> {
    const counter = new StepCounter();
    counter.#session.connect();
    await counter.#session.post("Profiler.enable");
    await counter.#session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
    return counter;
  }

  /** The steps of each work. */
  async count(works: readonly (() => unknown)[]): Promise<number[]> {
    await this.#session.post("Profiler.takePreciseCoverage");
    const counts: number[] = [];
    for (const work of works) {
      await work();
      const { result } = await this.#session.post("Profiler.takePreciseCoverage");
      const found = result.flatMap(({ functions }) => functions);
      counts.push(found.reduce((sum, one) => sum + blockRuns(one), 0));
    }
    return counts;
  }

  async stop(): Promise<void> {
    await this.#session.post("Profiler.stopPreciseCoverage");
    this.#session.disconnect();
  }
}

const blockRuns = ({ ranges }: Profiler.FunctionCoverage) =>
  ranges.reduce((sum, { count }) => sum + count, 0);
