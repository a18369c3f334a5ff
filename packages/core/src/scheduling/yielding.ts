import { setImmediate as nextRound } from "node:timers/promises";

const sliceMs = 4;

/** Yields the items one by one; other work runs between two slices, however long all items take. */
export async function* yieldingIterate<Item>(items: Iterable<Item>): AsyncGenerator<Item> {
  let sliceEnd = performance.now() + sliceMs;
  for (const item of items) {
    yield item;
    if (performance.now() < sliceEnd) continue;
    await nextRound();
    sliceEnd = performance.now() + sliceMs;
  }
}

/** Maps items like `Array.prototype.map`; other work runs between two slices. */
export async function mapYielding<Item, Result>(
  items: readonly Item[],
  map: (item: Item) => Result,
): Promise<Result[]> {
  const results: Result[] = [];
  for await (const item of yieldingIterate(items)) results.push(map(item));
  return results;
}
