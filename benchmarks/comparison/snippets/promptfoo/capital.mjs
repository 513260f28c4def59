import promptfoo from "promptfoo";

export default async function capital(output) {
  const judge = await promptfoo.loadApiProvider("openai:chat:judge-model");
  const question = "Does the answer name the capital? Answer yes or no.";
  const reply = await judge.callApi(`${question}\n\n${output}`);
  if (reply.error) throw new Error(reply.error);
  return /^yes\.?$/i.test(reply.output.trim()) ? 1 : 0;
}
