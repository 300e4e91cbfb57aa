// An oracle that we did not write: llama.cpp reads the demo model from a GGUF file and must write the
// same greedy tokens as we do, up to a first difference where the two likeliest tokens are as good as
// equal. Also the same tokens from the same text.
//
//   node oracle.mjs GREEDY_TOKENS CHECKPOINT FILE.gguf PROMPTS.jsonl [COUNT [LENGTH]]
//
// Exit code 1: a prompt failed.
import {spawn} from "node:child_process";
import readline from "node:readline";
import {LlamaContext} from "./llama.mjs";

const LARGEST_GAP = 1e-2; // of logits, at a first difference
const THREADS = 1; // a second one only waits for the first at these sizes

const [binary, checkpoint, gguf, prompts, count = "20", length = "64"] = process.argv.slice(2);

async function* ours() {
  const child = spawn(binary, [checkpoint, prompts, count, length],
                      {stdio: ["ignore", "pipe", "inherit"]});
  const ended = new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  for await (const line of readline.createInterface({input: child.stdout})) yield JSON.parse(line);
  if (await ended !== 0) throw new Error(`${binary} failed`);
}

// Index of the first difference, or the length.
async function firstDifference(llama, {prompt_tokens: prompt, tokens}) {
  llama.truncate(0, 0);
  let {logits: [[row]]} =
      await llama.decode([{sequence: 0, first: 0, tokens: prompt, logits: [prompt.length - 1]}]);
  for (let i = 0; i < tokens.length; ++i) {
    const {token} = await llama.best(row);
    if (token !== tokens[i]) return i;
    ({logits: [[row]]} = await llama.decode(
        [{sequence: 0, first: prompt.length + i, tokens: [token], logits: [0]}]));
  }
  return tokens.length;
}

const llama = await LlamaContext.load(gguf, {threads: THREADS, contextSize: 2048, batchSize: 2048,
                                             kv: "f32"});
let checked = 0, same = 0, excused = 0;
const failures = [];
for await (const answer of ours()) {
  const text = [...llama.model.tokenize(answer.prompt, true)];
  if (text.join() !== answer.prompt_tokens.join()) {
    failures.push(`prompt ${checked}: the tokenizers disagree`);
  }
  const at = await firstDifference(llama, answer);
  if (at === answer.tokens.length) {
    ++same;
  } else if (answer.gaps[at] < LARGEST_GAP) {
    ++excused;
    console.log(`prompt ${checked}: first difference at token ${at}, gap ${answer.gaps[at]}`);
  } else {
    failures.push(`prompt ${checked}: token ${at} differs at a gap of ${answer.gaps[at]}, ` +
                  `expected below ${LARGEST_GAP}`);
  }
  ++checked;
}
await llama.dispose();
if (checked < Number(count)) failures.push(`${checked} prompts, expected ${count}`);
for (const failure of failures) console.log(failure);
console.log(`oracle: ${same} of ${checked} prompts give the same ${length} greedy tokens in ` +
            `llama.cpp, ${excused} more up to a gap below ${LARGEST_GAP}, ${failures.length} failed`);
process.exitCode = failures.length === 0 ? 0 : 1;
