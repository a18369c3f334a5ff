/** `npm run check`: checks the structure of the source files; prints problems and exits with 1. */
import { importProblems } from "./imports.ts";
import { readSourceFiles } from "./source-files.ts";

const files = readSourceFiles(["packages", "bench", "scripts"]);
const problems = importProblems(files);
for (const problem of problems) console.error(problem);
process.exitCode = problems.length > 0 ? 1 : 0;
