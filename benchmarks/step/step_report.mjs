// step_bench.mjs's results: records for a file, and tables for people.
import {longContextTable} from "./long_context.mjs";
import {median, spread} from "./worker.mjs";

// What a step reads and computes.
function work(costs, {op, rows, context}) {
  const sequences = op === "sequences" ? rows : 1;
  const seen = op === "sequences" ? rows * (context + 1)
                                  : rows * context + rows * (rows + 1) / 2; // query-key pairs
  const read = sequences * context + rows;
  return {
    bytes: costs.weight_bytes + read * costs.position_bytes,
    macs: rows * costs.layer_macs + (op === "prefill" ? 1 : rows) * costs.head_macs +
        seen * costs.position_macs,
  };
}

const computeCeiling = (ceilings, dtype) => dtype === "bf16" ? ceilings.fma : ceilings.int8;

function record(run, dtype, costs, c, times, peer) {
  const {bytes, macs} = work(costs, c);
  const seconds = median(times) / 1000;
  return {
    op: c.op, model: run.model, weight_dtype: dtype, rows: c.rows, n: null, k: null,
    context: c.context, threads: run.threads, median_ms: median(times), spread: spread(times),
    bytes_per_s: bytes / seconds, ceiling_bytes_per_s: run.ceilings.read,
    macs_per_s: macs / seconds, ceiling_macs_per_s: computeCeiling(run.ceilings, dtype),
    peer: peer?.name ?? null, peer_median_ms: peer ? median(peer.times) : null,
    peer_spread: peer ? spread(peer.times) : null,
  };
}

// One record for each case, and one more for each further file that llama.cpp ran it with.
export function recordsOf(runs, long) {
  const records = [];
  for (const run of runs) {
    for (const {dtype, costs, times, peers} of run.pairs) {
      run.cases.forEach((c, i) => {
        const theirs = peers.map(({name, times: all}) => ({name, times: all[i]}));
        for (const peer of theirs.length > 0 ? theirs : [undefined]) {
          records.push(record(run, dtype, costs, c, times[i], peer));
        }
      });
    }
  }
  for (const c of long?.cases ?? []) {
    records.push({...record(long, "bf16", long.costs, c, c.times), op: "long_context"});
  }
  return records;
}

// Milliseconds of the larger of bytes and multiply-adds at the ceilings.
function boundMs(run, dtype, costs, c) {
  const {bytes, macs} = work(costs, c);
  return 1000 * Math.max(bytes / run.ceilings.read, macs / computeCeiling(run.ceilings, dtype));
}

function pairTable(run, {dtype, costs, times, peers}) {
  const names = peers.map(peer => peer.name);
  const gb = (costs.weight_bytes / 1e9).toFixed(3);
  let text = `${run.model}, ${dtype}, ${gb} GB of weights, ${run.threads} threads\n\n` +
      `| step | rows | ms | spread | T(M)/T(1) | of the bound |` +
      names.map(name => ` ${name}, ms | spread | ratio |`).join("") + "\n" +
      "| --- | --- | --- | --- | --- | --- |" + names.map(() => " --- | --- | --- |").join("") + "\n";
  run.cases.forEach((c, i) => {
    const ms = median(times[i]);
    const one = run.cases.findIndex(other => other.op === c.op && other.rows === 1);
    text += `| ${c.op} | ${c.rows} | ${ms.toFixed(1)} | ${(100 * spread(times[i])).toFixed(0)} % | ` +
        `${one < 0 ? "" : (ms / median(times[one])).toFixed(2)} | ` +
        `${(100 * boundMs(run, dtype, costs, c) / ms).toFixed(0)} % |` +
        peers.map(({times: all}) => {
          const theirs = median(all[i]);
          return ` ${theirs.toFixed(1)} | ${(100 * spread(all[i])).toFixed(0)} % | ` +
              `${(theirs / ms).toFixed(2)} |`;
        }).join("") + "\n";
  });
  return text + "\n";
}

export function tablesOf(runs, long) {
  let text = "";
  for (const run of runs) {
    const {read, fma, int8} = run.ceilings;
    text += `Ceilings beside ${run.model}, ${run.threads} threads: ${(read / 1e9).toFixed(1)} GB/s, ` +
        `${(fma / 1e9).toFixed(0)} GMAC/s in float32, ${(int8 / 1e9).toFixed(0)} in integers.\n\n`;
    for (const pair of run.pairs) text += pairTable(run, pair);
  }
  return long ? text + longContextTable(long) : text;
}
