/** A range of listed events by index (from 1), both ends inclusive. */
export interface Span {
  first: number;
  last: number;
}

/** The parent of the first event after the index `after` is the event `target`; 0: no parent. */
export interface Navigation {
  after: number;
  target: number;
}

/**
 * The path to an event as ordered spans (events.md section 1, parent_id). A log is linear between
 * navigations, which are ordered by `after`. The path to index 0 is empty.
 */
export function spansTo(index: number, navigations: readonly Navigation[]): Span[] {
  const spans: Span[] = [];
  let next = navigations.length - 1;
  for (let last = index; last > 0; ) {
    while (next >= 0 && navigations[next]!.after >= last) next--;
    const navigation = navigations[next];
    spans.push({ first: (navigation?.after ?? 0) + 1, last });
    last = navigation?.target ?? 0;
  }
  return spans.reverse();
}

/** Whether an index is in one of the ordered spans. */
export function isInside(spans: readonly Span[], index: number): boolean {
  let low = 0;
  let high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle]!.last < index) low = middle + 1;
    else high = middle;
  }
  return low < spans.length && spans[low]!.first <= index;
}
