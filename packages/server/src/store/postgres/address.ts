/** Returns the address of a database without user and password, for messages. */
export function describeAddress(url: string): string {
  try {
    const { host, pathname, searchParams } = new URL(url);
    const place = host || (searchParams.get("host") ?? "localhost");
    return `${place}${decodeURI(pathname)}`;
  } catch {
    return "SANDPIPER_DATABASE_URL";
  }
}
