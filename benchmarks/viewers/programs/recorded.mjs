// A provider of promptfoo that answers from answers.json.
import { readFileSync } from "node:fs";

const answers = JSON.parse(readFileSync(new URL("answers.json", import.meta.url), "utf8"));

export default class Recorded {
  id() {
    return "recorded";
  }

  async callApi(prompt, context) {
    return { output: answers[context.vars.id] };
  }
}
