/** Where a database is, for messages: its address without user and password. */
export function describeAddress(url: string): string {
  try {
    const { host, pathname, searchParams } = new URL(url);
    const place = host || (searchParams.get("host") ?? "localhost");
    return `${place}${decodeURI(pathname)}`;
  } catch {
    return "SANDPIPER_DATABASE_URL";
  }
}
