import { isObject } from "@sandpiper/core/is-object";

interface Schema {
  anyOf?: Schema[];
  properties?: Record<string, Schema>;
  maxProperties?: number;
}

/**
 * Cuts maps that have more members than their schema allows to one member too many. The validation
 * library looks at each member, although it reports only the first faults, which stay the same.
 */
export function cutMaps(schema: object, value: unknown): unknown {
  if (!isObject(value)) return value;
  const branches = (schema as Schema).anyOf ?? [schema as Schema];
  const bounds = branches.flatMap(({ maxProperties }) => maxProperties ?? []);
  const most = Math.max(...bounds);
  if (bounds.length > 0) {
    const names = Object.keys(value);
    if (names.length > most)
      return Object.fromEntries(names.slice(0, most + 1).map((name) => [name, value[name]]));
  }
  let result = value;
  for (const { properties = {} } of branches)
    for (const [name, inner] of Object.entries(properties)) {
      if (!Object.hasOwn(result, name)) continue;
      const cut = cutMaps(inner, result[name]);
      if (cut !== result[name]) result = { ...result, [name]: cut };
    }
  return result;
}
