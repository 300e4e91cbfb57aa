// Decoding at long contexts: tokens per second must not fall as sequences are added.
import {median, spread, Worker} from "./worker.mjs";

const CONTEXTS = [4096, 16384], SEQUENCES = [1, 2, 4, 8];
const SLACK = 64; // positions behind the context of each sequence
const MEMORY_SHARE = 0.6;
const POSITION_BYTES = 28 * 2 * 1024 * 2; // of the 0.6 B shapes in bfloat16

// `memory`: bytes that are free. Where eight long sequences do not fit, they share blocks, each
// read again only after all others.
export async function longContext({binary, checkpoint, threads, rounds, memory}) {
  const wanted = Math.max(...SEQUENCES) * (Math.max(...CONTEXTS) + SLACK);
  const positions = Math.min(wanted, Math.floor(MEMORY_SHARE * memory / POSITION_BYTES));
  const worker = await Worker.start(binary, [checkpoint, "bfloat16", String(threads),
                                             String(positions >> 4 << 4)]);
  const cases = CONTEXTS.flatMap(
      context => SEQUENCES.map(rows => ({op: "sequences", rows, context, times: []})));
  const ceilings = {read: [], fma: []};
  for (let r = 0; r < rounds; ++r) {
    for (const {op, rows, context, times} of cases) {
      times.push(median(await worker.run(op, rows, context, 2)));
    }
    for (const name of Object.keys(ceilings)) {
      ceilings[name].push(median(await worker.run(name, 0, 0, 8)));
    }
    console.error(`long context: round ${r + 1} of ${rounds}`);
  }
  await worker.stop();
  return {model: "qwen3-0.6b", threads, costs: JSON.parse(worker.greeting),
          shared: positions < wanted ? positions : 0, cases,
          ceilings: {read: median(ceilings.read), fma: median(ceilings.fma)}};
}

export const tokensPerSecond = c => c.rows / median(c.times) * 1000;

export function longContextTable(long) {
  let text = `Long contexts, ${long.model}, bf16 weights and cache, ${long.threads} threads` +
      (long.shared > 0 ? `; a cache of ${long.shared} positions, which long sequences share` : "") +
      "\n\n| context | sequences | ms | spread | tokens/s |\n| --- | --- | --- | --- | --- |\n";
  for (const c of long.cases) {
    text += `| ${c.context} | ${c.rows} | ${median(c.times).toFixed(1)} | ` +
        `${(100 * spread(c.times)).toFixed(0)} % | ${tokensPerSecond(c).toFixed(1)} |\n`;
  }
  const falls = long.cases.filter((c, i) => i > 0 && long.cases[i - 1].context === c.context &&
      tokensPerSecond(c) < tokensPerSecond(long.cases[i - 1]));
  const verdict = falls.length === 0
      ? "Tokens/s never falls as sequences are added."
      : "Tokens/s falls at " + falls.map(c => `${c.rows} sequences of ${c.context}`).join(", ") + ".";
  return `${text}\n${verdict}\n\n`;
}
