// One side of step_bench.mjs: times steps of llama.cpp over FILE on request.
//
//   node llama_worker.mjs FILE THREADS
//
// A line "OP ROWS CONTEXT CALLS" on standard input is answered with the milliseconds of each call.
// verify: ROWS rows of one sequence, all logits; sequences: a row of each of ROWS sequences;
// prefill: a prompt of ROWS rows, the logits of the last.
import readline from "node:readline";
import {LlamaContext} from "./llama.mjs";

const SEQUENCES = 16, POSITIONS = 1024, VOCABULARY = 4096;

const [file, threads] = process.argv.slice(2);
const llama = await LlamaContext.load(
    file, {threads: Number(threads), contextSize: POSITIONS, sequences: SEQUENCES});

const tokens = (count, seed) =>
    Array.from({length: count}, (_, i) => (seed * 7919 + i * i * 31 + i * 17) % VOCABULARY);
const all = count => Array.from({length: count}, (_, i) => i);

const filled = new Array(SEQUENCES).fill(0);
async function fill(sequence, context) {
  if (filled[sequence] !== context) {
    llama.truncate(sequence, 0);
    if (context > 0) {
      await llama.decode([{sequence, first: 0, tokens: tokens(context, sequence), logits: []}]);
    }
    filled[sequence] = context;
  }
}

function pieces(op, rows, context) {
  if (op === "verify") {
    return [{sequence: 0, first: context, tokens: tokens(rows, 99), logits: all(rows)}];
  }
  if (op === "sequences") {
    return all(rows).map(sequence => (
        {sequence, first: context, tokens: tokens(1, 99 + sequence), logits: [0]}));
  }
  if (op === "prefill") {
    return [{sequence: 0, first: context, tokens: tokens(rows, 99), logits: [rows - 1]}];
  }
  throw new Error(`unknown operation ${op}, expected verify, sequences or prefill`);
}

console.log("ready");
for await (const line of readline.createInterface({input: process.stdin})) {
  const [op, ...numbers] = line.split(" ");
  const [rows, context, calls] = numbers.map(Number);
  const batch = pieces(op, rows, context);
  for (const piece of batch) await fill(piece.sequence, context);
  const times = [];
  for (let i = 0; i < calls; ++i) {
    times.push((await llama.decode(batch)).ms);
    for (const piece of batch) llama.truncate(piece.sequence, context);
  }
  console.log(times.map(ms => ms.toFixed(4)).join(" "));
}
await llama.dispose();
