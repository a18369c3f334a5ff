import { afterAll, beforeAll } from "vitest";
import { postgresEngine } from "../../../test/store-suite/postgres-engine.ts";
import { describeStore } from "../../../test/store-suite/suite.ts";
import { type PostgresServer, startPostgres } from "../../../test/support/postgres.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.remove());

describeStore(postgresEngine(() => server));
