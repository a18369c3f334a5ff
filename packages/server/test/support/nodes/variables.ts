/** Variables with which `vitest.nodes.config.ts` tells the support of tests what to start. */
export const variables = {
  /** Number of servers behind one address, on one PostgreSQL database; unset: one, on SQLite. */
  nodes: "TEST_NODES",
  /** Address of the run's PostgreSQL server, with its password. */
  postgres: "TEST_POSTGRES",
};

/** Name of the database that each test's database is a copy of. */
export const templateName = "template_sandpiper";
