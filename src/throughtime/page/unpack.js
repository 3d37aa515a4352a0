// Only in exported files: unpacks the styles and scripts of the page, and starts it. Until then nothing is shown.
(() => {
  const root = document.documentElement;
  root.style.visibility = "hidden";

  async function unpack() {
    const text = document.querySelector('script[data-part="page"]').textContent;
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return JSON.parse(await new Response(stream).text());
  }

  function add(kind, text) {
    const element = document.createElement(kind);
    element.textContent = text;
    document.head.append(element);
  }

  addEventListener("DOMContentLoaded", async () => {
    try {
      globalThis.throughtimeParts = await unpack();
      add("style", throughtimeParts.style);
      add("script", throughtimeParts.script);
    } catch (error) {
      console.error(error);
      document.getElementById("state").textContent = "This browser is too old for this page; please use a newer one.";
    }
    root.style.visibility = "";
  });
})();
