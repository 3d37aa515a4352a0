// A problem that the reader is told in one sentence.

export class Problem extends Error {}
