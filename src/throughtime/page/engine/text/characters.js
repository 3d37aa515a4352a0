// What Python knows of each character. The file holds its tables, since every browser has another version of Unicode.

const SPACE = 1, ALPHA = 2, ALNUM = 4, DECIMAL = 8, PRINTABLE = 16, UNASSIGNED = 32, COMBINING = 64;
// By the rule for the letter sigma at the end of a word.
const CASED = 128, IGNORED = 256;
const SPACES = "[\\t-\\r\\x1c- \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]";
const AROUND = new RegExp(`^${SPACES}+|${SPACES}+$`, "g"), BEHIND = new RegExp(`${SPACES}+$`);
const BETWEEN = new RegExp(`${SPACES}+`);
const opened = new WeakMap();

/** Python's white space as part of a regular expression; `\s` of JavaScript is another set. */
export const PYTHON_SPACE = SPACES;

/** Python's `text.strip()`. */
export const strip = (text) => text.replace(AROUND, "");

/** Python's `text.rstrip()`. */
export const rstrip = (text) => text.replace(BEHIND, "");

/** Python's `text.split()`. */
export const splitWords = (text) => text.split(BETWEEN).filter(Boolean);

/** The number of characters of a text as Python counts them, where an emoji is one. */
export function length(text) {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

/** Python's `repr` of a text, for messages. */
export function quote(text) {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const named = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", [mark]: `\\${mark}` };
  const hidden = (one) => `\\x${one.charCodeAt(0).toString(16).padStart(2, "0")}`;
  const shown = [...text].map((one) => named[one] ?? (/[\0-\x1f\x7f-\xa0\xad]/.test(one) ? hidden(one) : one));
  return mark + shown.join("") + mark;
}

class Characters {
  constructor({ kinds, runs }) {
    this.kinds = kinds;
    this.starts = [];
    this.numbers = [];
    this.known = new Map();
    let place = 0;
    const values = runs.split(" ").map((value) => parseInt(value, 36));
    for (let at = 0; at < values.length; at += 2) {
      this.numbers.push(values[at]);
      this.starts.push(place);
      place += values[at + 1];
    }
    this.strange = this._pattern(UNASSIGNED);
  }

  /** A regular expression for the characters with a property. */
  _pattern(property) {
    const ranges = this.starts.map((start, at) =>
      this.kinds[this.numbers[at]][1] & property ? range(start, (this.starts[at + 1] ?? 0x110000) - 1) : "");
    return new RegExp(`[${ranges.join("")}]`, "u");
  }

  _kind(one) {
    let kind = this.known.get(one);
    if (kind === undefined) {
      const code = one.codePointAt(0);
      let low = 0, high = this.starts.length;
      while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (this.starts[middle] <= code) low = middle;
        else high = middle;
      }
      kind = this.kinds[this.numbers[low]];
      this.known.set(one, kind);
    }
    return kind;
  }

  /** The class of a character in the tokenizer "unicode". */
  group = (one) => this._kind(one)[0];
  /** The script of a letter; "" for other characters. */
  script = (one) => this._kind(one)[2];
  isSpace = (one) => (this._kind(one)[1] & SPACE) > 0;
  isAlpha = (one) => (this._kind(one)[1] & ALPHA) > 0;
  isAlnum = (one) => (this._kind(one)[1] & ALNUM) > 0;
  isDecimal = (one) => (this._kind(one)[1] & DECIMAL) > 0;
  isPrintable = (one) => (this._kind(one)[1] & PRINTABLE) > 0;
  isAssigned = (one) => (this._kind(one)[1] & UNASSIGNED) === 0;
  isCombining = (one) => (this._kind(one)[1] & COMBINING) > 0;

  /** Write Σ in lower case, which is another letter at the end of a word. */
  _lowerSigmas(text) {
    const all = [...text];
    const reaches = (at, step) => {
      while (all[at] !== undefined && this._kind(all[at])[1] & IGNORED) at += step;
      return all[at] !== undefined && (this._kind(all[at])[1] & CASED) > 0;
    };
    const lower = (at) => (reaches(at - 1, -1) && !reaches(at + 1, 1) ? "ς" : "σ");
    return all.map((one, at) => (one === "Σ" ? lower(at) : one)).join("");
  }

  /** Change a text, but not the characters that Python does not know. */
  _change(text, change) {
    if (!this.strange.test(text)) return change(text);
    let whole = "", part = "";
    for (const one of text) {
      if (this.isAssigned(one)) part += one;
      else {
        whole += change(part) + one;
        part = "";
      }
    }
    return whole + change(part);
  }

  /** Python's `text.lower()`. */
  lower = (text) => this._change(text.includes("Σ") ? this._lowerSigmas(text) : text, (part) => part.toLowerCase());
  /** Python's `unicodedata.normalize(form, text)`. */
  normalize = (form, text) => this._change(text, (part) => part.normalize(form));
}

/** The part of a regular expression for the characters from one code to another. */
export function range(first, last) {
  const escape = (code) => `\\u{${code.toString(16)}}`;
  return first === last ? escape(first) : `${escape(first)}-${escape(last)}`;
}

/** The tables of characters among the files of a model. */
export function openCharacters(files) {
  if (!opened.has(files)) opened.set(files, new Characters(JSON.parse(files["characters.json"])));
  return opened.get(files);
}
