// Whole steps of a model, ours and llama.cpp's over the same weights, in interleaved rounds at the
// same thread count.
//
//   node step_bench.mjs --bin build/release/benchmarks --models build/bench-models
//                       [--only MODEL] [--dtypes bf16,int8] [--threads 2] [--rounds 7]
//                       [--peers no] [--long no] [--output out/bench]
//
// Prints tables and writes step.json and step.md into the output folder.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {fileURLToPath} from "node:url";
import {longContext} from "./long_context.mjs";
import {recordsOf, tablesOf} from "./step_report.mjs";
import {median, Worker} from "./worker.mjs";

const options = {bin: "", models: "", only: "", dtypes: "bf16,int8,int4", threads: "2",
                 rounds: "7", peers: "yes", long: "yes", output: "out/bench"};
for (let i = 2; i + 1 < process.argv.length; i += 2) {
  const name = process.argv[i].replace(/^--/, "");
  if (!(name in options)) throw new Error(`unknown flag ${process.argv[i]}`);
  options[name] = process.argv[i + 1];
}

const MODELS = [
  {name: "qwen3-0.6b", minutes: 9},
  {name: "demo-ballast", minutes: 2.5},
];
const DTYPES = {
  bf16: {flag: "bfloat16", ggufs: {bf16: "llama.cpp BF16"}},
  int8: {flag: "int8", ggufs: {q8_0: "llama.cpp Q8_0"}},
  // The head is int8 or Q8_0. Both take 4.5 bits an element, ours with a zero point.
  int4: {flag: "int4", ggufs: {q4_0: "llama.cpp Q4_0"}},
};
const CONTEXT = 128, POSITIONS = 16 * 1024;
const CASES = [
  ...[1, 2, 4, 8, 16].map(rows => ({op: "verify", rows, context: CONTEXT})),
  ...[1, 2, 4, 8, 16].map(rows => ({op: "sequences", rows, context: CONTEXT})),
  {op: "prefill", rows: 512, context: 0},
];
const CEILINGS = ["read", "fma", "int8"];

const llamaWorker = fileURLToPath(new URL("llama_worker.mjs", import.meta.url));

// Both engines of one weight type: workers, and a list of figures for each case.
async function startPair(model, dtype) {
  const ours = await Worker.start(
      path.join(options.bin, "step_worker"),
      [path.join(options.models, model), DTYPES[dtype].flag, options.threads, String(POSITIONS)]);
  const peers = [];
  for (const [type, name] of Object.entries(options.peers === "no" ? {} : DTYPES[dtype].ggufs)) {
    const file = path.join(options.models, `${model}-${type}.gguf`);
    const worker = await Worker.start(process.execPath, [llamaWorker, file, options.threads]);
    peers.push({name, worker, times: CASES.map(() => [])});
  }
  return {dtype, costs: JSON.parse(ours.greeting), ours, peers, times: CASES.map(() => [])};
}

// One figure of a case; the first call after a pause is not counted.
async function once(worker, {op, rows, context}) {
  const calls = op === "prefill" ? 1 : 4;
  const times = await worker.run(op, rows, context, calls);
  return median(calls === 1 ? times : times.slice(1));
}

async function round(pairs, ceilings, keep) {
  for (const pair of pairs) {
    for (let i = 0; i < CASES.length; ++i) {
      const our = await once(pair.ours, CASES[i]);
      if (keep) pair.times[i].push(our);
      for (const peer of pair.peers) {
        const theirs = await once(peer.worker, CASES[i]);
        if (keep) peer.times[i].push(theirs);
      }
    }
    if (!keep) continue;
    for (const name of CEILINGS) {
      ceilings[name].push(median(await pair.ours.run(name, 0, 0, 8)));
    }
  }
}

async function measure(model, minutes) {
  const start = performance.now();
  const pairs = [];
  for (const dtype of options.dtypes.split(",")) pairs.push(await startPair(model, dtype));
  const ceilings = Object.fromEntries(CEILINGS.map(name => [name, []]));
  await round(pairs, ceilings, false);
  const rounds = Number(options.rounds);
  for (let r = 1; r <= rounds; ++r) {
    await round(pairs, ceilings, true);
    const seconds = (performance.now() - start) / 1000;
    console.error(`${model}: round ${r} of ${rounds}, ${seconds.toFixed(0)} s`);
    if (r >= 3 && r < rounds && seconds > minutes * 60) {
      console.error(`${model}: stopped after ${r} rounds, ${minutes} minutes are over`);
      break;
    }
  }
  for (const pair of pairs) {
    for (const worker of [pair.ours, ...pair.peers.map(peer => peer.worker)]) await worker.stop();
  }
  return {model, threads: Number(options.threads), cases: CASES, pairs,
          ceilings: Object.fromEntries(CEILINGS.map(name => [name, median(ceilings[name])]))};
}

const results = [];
for (const {name, minutes} of MODELS) {
  if (options.only === "" || options.only === name) results.push(await measure(name, minutes));
}
const long = options.long === "no" ? null : await longContext({
  binary: path.join(options.bin, "step_worker"),
  checkpoint: path.join(options.models, "qwen3-0.6b"),
  threads: Number(options.threads), rounds: Number(options.rounds), memory: os.freemem()});

const tables = tablesOf(results, long);
process.stdout.write(tables);
fs.mkdirSync(options.output, {recursive: true});
fs.writeFileSync(path.join(options.output, "step.json"),
                 JSON.stringify(recordsOf(results, long), null, 1) + "\n");
fs.writeFileSync(path.join(options.output, "step.md"), tables);
