// Visits pages in Firefox by WebDriver BiDi. Reads {program, dark, language, visits} as JSON from stdin, where a visit
// is {address, width, height, steps}; prints, for each visit, {complaints, results} as JSON. A step is one of
// {wait: selector}, {type: selector, text}, {press: key}, {click: selector}, {run: function as text, given: value}
// and {picture: file}; each has one result, which is what `run` returns and null for the others.

import { readFileSync } from "node:fs";
import puppeteer from "puppeteer-core";

const PATIENCE = 20_000;

async function take(page, step) {
  if (step.wait) {
    await page.waitForSelector(step.wait, { timeout: PATIENCE });
  } else if (step.type) {
    await page.focus(step.type);
    await page.$eval(step.type, (field) => field.select());
    await page.keyboard.type(step.text);
  } else if (step.press) {
    await page.keyboard.press(step.press);
  } else if (step.click) {
    await page.click(step.click);
  } else if (step.picture) {
    await page.screenshot({ path: step.picture, fullPage: true });
  } else {
    // The page's own policy forbids to make functions from text inside it, so this one is made here.
    return (await page.evaluate(new Function(`return ${step.run}`)(), step.given)) ?? null;
  }
  return null;
}

async function visit(browser, { address, width = 1400, height = 900, steps = [] }) {
  const page = await browser.newPage();
  const complaints = [];
  const results = [];
  page.on("console", (line) => line.type() === "error" && complaints.push(line.text()));
  page.on("pageerror", (error) => complaints.push(String(error.message ?? error)));
  await page.setViewport({ width, height });
  await page.goto(address, { timeout: PATIENCE });
  for (const step of steps) results.push(await take(page, step));
  await page.close();
  return { complaints, results };
}

const asked = JSON.parse(readFileSync(0, "utf-8"));
const browser = await puppeteer.launch({
  browser: "firefox",
  executablePath: asked.program,
  headless: true,
  extraPrefsFirefox: {
    "layout.css.prefers-color-scheme.content-override": asked.dark ? 0 : 1,
    "intl.accept_languages": asked.language,
  },
});
try {
  const found = [];
  for (const one of asked.visits) found.push(await visit(browser, one));
  process.stdout.write(JSON.stringify(found));
} finally {
  await browser.close();
}
