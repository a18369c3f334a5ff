import { defineConfig } from "vitest/config";

/** Tests on a real Kubernetes cluster, which `npm run test:cluster` brings up. */
export default defineConfig({
  test: {
    include: ["packages/*/test/cluster/**/*.cluster.ts"],
    pool: "forks",
    fileParallelism: false,
    testTimeout: 180_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 40_000 } },
  },
});
