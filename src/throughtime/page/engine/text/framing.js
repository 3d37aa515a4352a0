// How a language model reads text: as marked lines or as one stream, from left to right or the reverse.

import { Problem } from "../problem.js";
import { cutCommon, WINDOW } from "./codec.js";

/** The id before the first token of a text without a beginning mark; it does not change the state. */
export const NOTHING = -1;

/** How texts become sequences of ids: `marked` texts have marks around them, `running` lines only end marks. */
export class Framing {
  constructor(codec, { marked, backward = false, running = false }) {
    Object.assign(this, { codec, marked, backward, running });
  }

  /** The number of ids at the start of a sequence that are given, not predicted. */
  get numGiven() {
    return this.marked ? 1 : 0;
  }

  /** The id before the first token; null if texts are not marked. */
  get beginId() {
    if (!this.marked) return null;
    return this.running ? this.endId : this._mark("bos");
  }

  /** The id that ends a sequence; null if texts are not marked. */
  get endId() {
    return this.marked ? this._mark("eos") : null;
  }

  /** The ids of special tokens that never occur in a text: all but the end of a line. */
  get neverPredicted() {
    const { bosId, padId, maskId, eosId } = this.codec.vocabulary;
    return [bosId, padId, maskId, this.marked ? null : eosId].filter((id) => id !== null);
  }

  /** The ids of one text, with its marks. */
  ids(text, end = true) {
    const ids = this.codec.encode(text);
    if (this.backward) ids.reverse();
    return this.marked ? [this.beginId, ...ids, ...(end ? [this.endId] : [])] : ids;
  }

  /** The text of some ids, from left to right, without marks. */
  text(ids) {
    return this.codec.decode(this._turn(ids));
  }

  /** The text that each id adds; a mark adds nothing. */
  pieces(ids) {
    const ordered = this._turn(ids);
    const near = (place) => ordered.slice(Math.max(0, place - WINDOW), place);
    return this._turn(ordered.map((one, place) => this.addition(near(place), one)));
  }

  /** The text that one id adds to the ids before it; nothing while a character is incomplete. */
  addition(before, one) {
    const near = before.slice(-WINDOW);
    const [text, longer] = [near, [...near, one]].map((ids) => this.codec.decode(ids).replace(/\ufffd+$/, ""));
    return cutCommon(text, longer);
  }

  /** The number of characters of some texts as Python counts them; the end of a line counts as one. */
  characters(texts) {
    const { normalise } = this.codec.tokenizer;
    return texts.reduce((total, text) => total + [...normalise(text)].length + this.numGiven, 0);
  }

  _turn(list) {
    return this.backward ? [...list].reverse() : [...list];
  }

  _mark(role) {
    const number = this.codec.vocabulary[`${role}Id`];
    if (number !== null) return number;
    throw new Problem(`the vocabulary has no <${role}> token, which a model of marked lines needs`);
  }
}
