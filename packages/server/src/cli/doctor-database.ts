import { errorText } from "@sandpiper/core/errors";
import type { Config } from "../config/config.ts";
import { describeAddress } from "../store/postgres/address.ts";
import { connectFirst } from "../store/postgres/connect.ts";
import { readDatabaseUrl } from "../store/postgres/read-url.ts";
import { type DoctorFinding, finding } from "./finding.ts";

const name = "database";

/** Difference of the clocks above which the times of several servers would disagree, ms. */
const maxClockDifferenceMs = 1_000;

/** Checks the PostgreSQL database. Creates and changes nothing. */
export async function checkDatabase({ database }: Config): Promise<DoctorFinding[]> {
  if (!database) return [];
  try {
    const url = await readDatabaseUrl(database);
    const { client, facts } = await connectFirst(url);
    await client.end();
    const difference = Math.round(facts.aheadMs);
    const clock = `its clock is ${Math.abs(difference)} ms ${difference < 0 ? "behind" : "ahead"}`;
    const found = `PostgreSQL ${facts.version} at ${describeAddress(url)}, ${facts.encoding}, ${clock}`;
    const advice = "Synchronize the clocks of both machines, for example with chrony.";
    return [finding(name, false, Math.abs(difference) <= maxClockDifferenceMs, found, advice)];
  } catch (error) {
    return [finding(name, true, false, "cannot be used", errorText(error))];
  }
}
