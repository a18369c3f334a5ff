import { connectFirst } from "../../../src/store/postgres/connect.ts";
import { migrate } from "../../../src/store/postgres/migrate.ts";
import { startPostgres } from "../postgres.ts";
import { templateName, variables } from "./variables.ts";

/**
 * Set-up of a run of `npm run test:nodes`: starts the PostgreSQL server of all tests, with a
 * database that has the schema and no data. Returns a function that ends the server.
 */
export default async function setUp(): Promise<() => Promise<void>> {
  const server = await startPostgres({
    ...{ fsync: "off", full_page_writes: "off", max_connections: "600" },
    // Each test copies a template of a few megabytes through the write-ahead log. A copy of the
    // files would make a checkpoint, and the settings avoid checkpoints.
    ...{ shared_buffers: "256MB", checkpoint_timeout: "30min", max_wal_size: "4GB" },
  });
  await server.query(`CREATE DATABASE ${templateName}`);
  const url = server.url(templateName);
  const { client } = await connectFirst(url);
  await migrate(client, url);
  await client.end();
  process.env[variables.postgres] = server.url();
  return () => server.remove();
}
