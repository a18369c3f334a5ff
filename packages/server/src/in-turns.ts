/** Time after which others get their turn, ms. */
const turnMs = 10;

/** Maps items like `Array.prototype.map`. The server goes on serving meanwhile, however long all of them take together. */
export async function mapInTurns<Item, Result>(items: readonly Item[], map: (item: Item) => Result): Promise<Result[]> {
  const results: Result[] = [];
  let turn = performance.now() + turnMs;
  for (const item of items) {
    results.push(map(item));
    if (performance.now() < turn) continue;
    await new Promise((resolve) => setImmediate(resolve));
    turn = performance.now() + turnMs;
  }
  return results;
}
