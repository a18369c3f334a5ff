/**
 * A step of `npm run check`: the structure of the source files. Prints each problem and ends with 1
 * when there is one.
 */
import { collaboratorProblems } from "./collaborators.ts";
import { importProblems } from "./imports.ts";
import { lengthProblems } from "./lengths.ts";
import { regexProblems } from "./regexes.ts";
import { readSourceFiles } from "./source-files.ts";

const files = readSourceFiles(["packages", "bench", "scripts"]);
const problems = [
  ...importProblems(files),
  ...lengthProblems(files),
  ...collaboratorProblems(files),
  ...regexProblems(files),
];
for (const problem of problems) console.error(problem);
process.exitCode = problems.length > 0 ? 1 : 0;
