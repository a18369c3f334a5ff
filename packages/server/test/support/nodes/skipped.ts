import { variables } from "./variables.ts";

/** A test that `npm run test:nodes` leaves out. */
interface Skipped {
  /** The end of the path of its file. */
  file: string;
  /** The beginning of its name; undefined: all tests of the file. */
  test?: string;
  reason: string;
}

/** Tests that are about SQLite. */
const onPostgres: readonly Skipped[] = [
  {
    file: "agent-server/disk-full.test.ts",
    reason: "It fills the disk of the data folder; disk-full.slow.test.ts of the store fills PostgreSQL's.",
  },
  { file: "openapi/schema-truth.test.ts", reason: "It counts the rows of SQLite's tables." },
  {
    file: "routes/v1/settings.test.ts",
    test: "no plain secret is in the store",
    reason: "It reads the files of the data folder.",
  },
  {
    file: "routes/account/secrets.test.ts",
    test: "secrets are encrypted in the database",
    reason: "It reads the files of the data folder.",
  },
];

/** Tests that replace a part of the first server, while another one may answer. */
const overNodes: readonly Skipped[] = [
  {
    file: "test/conversation-control.test.ts",
    test: "a deletion whose sandbox could not be removed",
    reason: "It lets the first server's removal of a sandbox fail.",
  },
];

/** Returns why a test does not run in this run; undefined: the test runs. */
export function skipReason(file: string, test: string): string | undefined {
  if (process.env[variables.postgres] === undefined) return undefined;
  const skipped = Number(process.env[variables.nodes]) > 1 ? [...onPostgres, ...overNodes] : onPostgres;
  return skipped.find((one) => file.endsWith(one.file) && test.startsWith(one.test ?? ""))?.reason;
}
