/** Time limits of tests, only for hangs: a busy machine takes ten times as long as an idle one. */
export const limits = {
  testTimeout: 180_000,
  hookTimeout: 180_000,
  expect: { poll: { timeout: 150_000 } },
};
