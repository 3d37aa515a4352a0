// The table of replacements in tokenizers of SentencePiece: a trie of bytes in one array, and the texts it leads to.

const utf8 = new TextEncoder(), text8 = new TextDecoder("utf-8", { ignoreBOM: true });

/** The place to which a unit of the trie leads. */
const offset = (unit) => (unit >>> 10) << ((unit & 512) >>> 6);

/**
 * A function that replaces parts of a text: a character with all that join it if these are less than six bytes, or else
 * a character. `joining` and `alone` are classes of characters, those that join and those that nothing joins.
 */
export function openReplacements(table, joining, alone) {
  const bytes = Uint8Array.from(atob(table), (one) => one.charCodeAt(0)), view = new DataView(bytes.buffer);
  const size = view.getUint32(0, true), texts = bytes.subarray(4 + size);
  const units = Uint32Array.from({ length: size / 4 }, (_, place) => view.getUint32(4 + 4 * place, true));
  const clusters = new RegExp(`\\r\\n|(?!${alone})[^]${joining}*|[^]`, "gu");

  /** What replaces a part: that of its shortest beginning in the table; null if there is none. */
  function find(part) {
    let place = offset(units[0]);
    for (const byte of part) {
      place ^= byte;
      const unit = units[place];
      if (byte === 0 || unit === undefined || (unit & 0x800000ff) !== byte) return null;
      place ^= offset(unit);
      if (unit & 256) {
        const start = units[place] & 0x7fffffff;
        return text8.decode(texts.subarray(start, texts.indexOf(0, start)));
      }
    }
    return null;
  }

  function replace(cluster) {
    const part = utf8.encode(cluster), whole = part.length < 6 ? find(part) : null;
    return whole ?? Array.from(cluster, (one) => find(utf8.encode(one)) ?? one).join("");
  }

  return (text) => text.replace(clusters, replace);
}
