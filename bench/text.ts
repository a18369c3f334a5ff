import { judgeScript } from "@sandpiper/agent/risk/shell-rules";
import { FrontMatterReader } from "@sandpiper/agent/skills/front-matter";
import { SecretMatcher } from "@sandpiper/core/secrets/secret-matcher";
import { SecretStream } from "@sandpiper/core/secrets/secret-stream";
import { figures, inTurn, type Row, single } from "./measure.ts";

const samples = 20;

const secrets = Array.from({ length: 200 }, (_, index) => "a".repeat(500 + 10 * index));
const matcher = new SecretMatcher(secrets);
const flood = "a".repeat(2 ** 20);
const yaml = "[".repeat(1_990);

interface Work {
  name: string;
  text: string;
  run(): unknown;
  /** Most time, ms. */
  target: number;
}

/** The texts that take longest among those of the fuzz table. */
const works: readonly Work[] = [
  command("nested find -exec, 149 KB", "find . -exec find ".repeat(8_300)),
  command("nested expansions, 75 KB", '"${a:-'.repeat(12_500)),
  command("many heredocs, 149 KB", `cat ${"<<A ".repeat(37_300)}`),
  {
    name: "masks 1 MB that repeats, 200 secrets that repeat too",
    text: flood,
    run: () => matcher.ranges(flood),
    target: 2_000,
  },
  {
    name: "masks 1,000 small outputs with the same secrets",
    text: flood.slice(0, 10_000),
    run() {
      const stream = new SecretStream(matcher, "#");
      for (let index = 0; index < 1_000; index++) stream.write(`aaaa ${index}\n`);
    },
    target: 250,
  },
  {
    name: "reads front matter of 1,990 open lists",
    text: yaml,
    run: () => new FrontMatterReader().split(`---\n${yaml}\n---\ntext`),
    target: 250,
  },
];

function command(name: string, text: string): Work {
  return { name: `judges a command: ${name}`, text, run: () => judgeScript(text), target: 250 };
}

/** Hostile texts: time beside one pass over their characters, and memory that stays. */
export async function benchText(): Promise<Row[]> {
  const rows: Row[] = [];
  for (const { name, text, run, target } of works) {
    const pass = async () => void countSpaces(text);
    const [own, floor] = await inTurn(samples, [async () => void run(), pass]);
    const measured = figures(own!);
    rows.push({
      name,
      unit: "ms",
      figures: measured,
      floor: { name: "one pass over the characters", figures: figures(floor!) },
      target: `p95 < ${target} ms`,
      met: measured.p95 < target,
    });
  }
  const before = process.memoryUsage().rss;
  for (const { run } of works) run();
  const grown = (process.memoryUsage().rss - before) / 2 ** 20;
  rows.push({
    name: "memory after all of them once more",
    unit: "MB",
    figures: single(grown),
    target: "< 64 MB",
    met: grown < 64,
  });
  return rows;
}

function countSpaces(text: string): number {
  let count = 0;
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) === 0x20) count++;
  return count;
}
