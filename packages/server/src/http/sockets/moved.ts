/** Code and reason with which a socket closes when another server takes its sandbox over. */
export const movedClose = [1012, "The sandbox has moved to another server: connect again"] as const;
