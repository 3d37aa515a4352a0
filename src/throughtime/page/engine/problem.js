// What went wrong, as one sentence for the reader.

export class Problem extends Error {}
