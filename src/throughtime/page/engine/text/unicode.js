// The tokenizer "unicode": words, ideographs, marks and emoji of any script, and the spaces between them.

const TOKEN = new RegExp(
  // A word or number, with its sign, and with hyphens, apostrophes and dots between letters.
  "(?:(?<![^so])h(?=d))?[wd][wdmz]*(?:(?:[ahn]|(?<=d)g(?=d))[wd][wdmz]*)*" +
  // An emoji with its skin tones and joined emoji; a flag.
  "|[ek][mkz]*(?:(?<=z)[ek][mkz]*)*|rr?[mz]*" +
  // Combining marks without a letter; any other character with its combining marks.
  "|[mz]+|[^s][mz]*", "g");
// French words that lose their last vowel before another word; ſ, İ and ı count as s and i.
const ELIDED = new RegExp("^(?:[cdjlmnstCDJLMNSTſ]|(?:[jJ][uU][sSſ]|[lL][oO][rR][sSſ]|[pP][uU][iIİı][sSſ]" +
  "|[qQ][uU][oO][iIİı])?[qQ][uU])['’]");
const TAKES_NUMBER = new Set("$£¥");
const NARROW = "\u202f";

/** Remembers which quotation marks are open, since the same mark may open and close. */
class Quotes {
  constructor(tokens) {
    const first = tokens.indexOf("'"), alone = first === tokens.lastIndexOf("'") ? first : -1;
    // A single ' after an s is the genitive of "my parents' house", not a quotation mark.
    this.open = new Set(alone > 0 && tokens[alone - 1].endsWith("s") ? ["'"] : []);
  }

  /** Whether this mark closes a quotation; null for other tokens. */
  closes(token) {
    if (token === "„") {
      this.open.add("“");
      return false;
    }
    if (token === "“") return this.open.delete(token);
    if (token !== '"' && token !== "'") return null;
    if (this.open.delete(token)) return true;
    this.open.add(token);
    return false;
  }
}

function describe(token, quotes, characters) {
  const groups = [...token].map(characters.group);
  const first = groups[0], last = groups.at(-1), closing = quotes.closes(token);
  const isMark = !groups.includes("w") && !groups.includes("d");
  const closes = closing ?? (isMark && "acgn".includes(first));
  const opens = closing === false || (closing === null && first === "o") || (first === "w" && last === "a");
  return { token, first, last, closes, opens };
}

/** What to write between two tokens. */
function gap(left, right, french) {
  if ("mzk".includes(right.first) || (left.first === "r" && right.first === "r")) return " ";
  if (right.first === "h" && [...right.token].length > 1) return left.last === "o" ? "" : " ";
  if (left.first === "i" || right.first === "i") return "";
  if (french && (["!", "?", ";", ":", "»", "%"].includes(right.token) || left.token === "«")) {
    return [left, right].every((one) => one.token === "!" || one.token === "?") ? "" : NARROW;
  }
  if (right.closes || left.opens || left.first === "b" || right.first === "b") return "";
  const single = left.token === right.token && [...left.token].length === 1;
  if (single && "ehp".includes(left.first) && !left.closes) return "";
  if (TAKES_NUMBER.has(left.token) && right.first === "d") return "";
  return left.token === "#" && "wd".includes(right.first) ? "" : " ";
}

/** The tokenizer with its options `lower` and `french`. */
export function openUnicode({ lower = false, french = false }, characters) {
  const isLetter = (one) => one !== undefined && characters.isAlnum(one) && !characters.isDecimal(one);

  function tokenize(given) {
    const all = [...characters.normalize("NFC", lower ? characters.lower(given) : given)];
    const tokens = [];
    for (const match of all.map(characters.group).join("").matchAll(TOKEN)) {
      let token = all.slice(match.index, match.index + match[0].length);
      if (token.length > 2 && (token.includes("'") || token.includes("’"))) {
        for (;;) {
          const elided = token.join("").match(ELIDED)?.[0];
          if (!elided || !isLetter(token[elided.length])) break;
          tokens.push(elided);
          token = token.slice(elided.length);
        }
      }
      tokens.push(token.join(""));
    }
    return tokens;
  }

  function detokenize(tokens) {
    const quotes = new Quotes(tokens);
    let whole = "", previous = null;
    for (const token of tokens.filter(Boolean)) {
      const piece = describe(token, quotes, characters);
      whole += (previous ? gap(previous, piece, french) : "") + token;
      previous = piece;
    }
    return whole;
  }

  return { tokenize, detokenize };
}
