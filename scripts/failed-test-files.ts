import { readFileSync } from "node:fs";
import { relative } from "node:path";

/** Prints the files that failed in a JSON report of vitest, one per line; none without a report. */
const text = readFileSync(process.argv[2]!, "utf8");
const { testResults = [] } = text ? (JSON.parse(text) as Report) : {};
for (const { name, status } of testResults)
  if (status === "failed") console.log(relative(process.cwd(), name));

interface Report {
  testResults?: { name: string; status: string }[];
}
