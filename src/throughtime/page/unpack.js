// Only in exported files: unpacks the styles and scripts of the page, and starts it. Until then nothing is shown.
(() => {
  const root = document.documentElement;
  root.style.visibility = "hidden";

  // Five letters are four bytes: this takes less space than base64.
  const LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
  const digits = new Map([...LETTERS].map((letter, digit) => [letter, digit]));

  function decode(text) {
    const missing = (5 - (text.length % 5)) % 5;
    const whole = text + "~".repeat(missing);
    const bytes = new DataView(new ArrayBuffer((whole.length / 5) * 4));
    for (let at = 0, into = 0; at < whole.length; into += 4) {
      let number = 0;
      for (const end = at + 5; at < end; at += 1) number = number * 85 + digits.get(whole[at]);
      bytes.setUint32(into, number);
    }
    return new Uint8Array(bytes.buffer, 0, bytes.byteLength - missing);
  }

  async function unpack() {
    const bytes = decode(document.querySelector('script[data-part="page"]').textContent);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    const [style, script, worker, hex] = (await new Response(stream).text()).split("\0");
    const products = btoa(hex.replace(/../g, (byte) => String.fromCharCode(parseInt(byte, 16))));
    return { style, script, worker, products };
  }

  function add(kind, text) {
    const element = document.createElement(kind);
    element.textContent = text;
    document.head.append(element);
  }

  addEventListener("DOMContentLoaded", async () => {
    try {
      const parts = await unpack();
      globalThis.throughtimeParts = parts;
      add("style", parts.style);
      add("script", parts.script);
    } catch (error) {
      console.error(error);
      document.getElementById("state").textContent = "This browser is too old for this page; please use a newer one.";
    }
    root.style.visibility = "";
  });
})();
