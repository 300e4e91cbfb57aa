// `bench serve` and a client written here, with nothing in common, measure the same workload on a server with known
// timings: their figures agree within 1 %.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';

const BINARY = process.env.FIRESTEEL_BINARY;
const CONCURRENCY = 4;
const PROMPTS = 16;
const TOKENS = 60;
const FIRST_MS = 300;
const GAP_MS = 20;
const TRIES = 5;

const sleepUntil = (at) => new Promise((done) => setTimeout(done, Math.max(0, at - performance.now())));

// Tokens at absolute times after the request; every third event holds two of them.
async function answer(response) {
  const start = performance.now();
  response.writeHead(200, { 'Content-Type': 'text/event-stream' });
  response.flushHeaders();
  response.socket.setNoDelay(true);
  let sent = 0;
  for (let event = 0; sent < TOKENS; ++event) {
    await sleepUntil(start + FIRST_MS + event * GAP_MS);
    const ids = event % 3 === 2 && sent + 2 <= TOKENS ? [sent, sent + 1] : [sent];
    sent += ids.length;
    const finish = sent === TOKENS ? 'length' : null;
    response.write(`data: ${JSON.stringify({ choices: [{ index: 0, text: 'w'.repeat(ids.length), token_ids: ids, finish_reason: finish }] })}\n\n`);
  }
  const usage = { prompt_tokens: 5, completion_tokens: TOKENS };
  response.write(`data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`);
  response.end();
}

function startServer() {
  const server = http.createServer((request, response) => {
    let body = '';
    request.on('data', (bytes) => (body += bytes));
    request.on('end', () => {
      if (request.method === 'POST' && request.url === '/v1/completions') return void answer(response);
      response.writeHead(404).end();
    });
  });
  return new Promise((done) => server.listen(0, '127.0.0.1', () => done(server)));
}

// --- the other client -------------------------------------------------------------------------------------------

function measureOne(port, agent) {
  const record = { times: [], counts: [], tokens: 0 };
  return new Promise((done, fail) => {
    const request = http.request({ port, host: '127.0.0.1', path: '/v1/completions', method: 'POST', agent, headers: { 'Content-Type': 'application/json' } });
    request.on('error', fail);
    request.setNoDelay(true);
    request.on('response', (response) => {
      let pending = '';
      response.setEncoding('utf8');
      response.on('data', (text) => {
        const now = performance.now();
        const events = (pending + text).split('\n\n');
        pending = events.pop();
        let count = 0;
        for (const event of events) {
          const data = event.slice('data: '.length);
          if (data === '[DONE]') continue;
          const json = JSON.parse(data);
          if (json.usage) record.tokens = json.usage.completion_tokens;
          for (const choice of json.choices) count += choice.token_ids.length;
        }
        if (count > 0) {
          record.times.push(now);
          record.counts.push(count);
        }
      });
      response.on('end', () => {
        record.end = performance.now();
        done(record);
      });
    });
    record.start = performance.now();
    request.end(JSON.stringify({ prompt: 'p', max_tokens: TOKENS, stream: true }));
  });
}

async function measureHere(port) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: CONCURRENCY });
  const records = [];
  let next = 0;
  const slot = async () => {
    while (next < PROMPTS) {
      ++next;
      records.push(await measureOne(port, agent));
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, slot));
  agent.destroy();
  const last = (list) => list[list.length - 1];
  const itl = [];
  for (const r of records) {
    for (let i = 1; i < r.times.length; ++i) {
      for (let k = 0; k < r.counts[i]; ++k) itl.push((r.times[i] - r.times[i - 1]) / r.counts[i]);
    }
  }
  const duration = (Math.max(...records.map((r) => r.end)) - Math.min(...records.map((r) => r.start))) / 1000;
  const output = records.reduce((sum, r) => sum + r.tokens, 0);
  return {
    ttft: records.map((r) => r.times[0] - r.start),
    e2el: records.map((r) => last(r.times) - r.start),
    tpot: records.map((r) => (last(r.times) - r.times[0]) / (r.tokens - 1)),
    itl,
    output_throughput: output / duration,
    request_throughput: records.length / duration,
  };
}

function percentile(samples, percent) {
  const sorted = [...samples].sort((a, b) => a - b);
  const at = ((sorted.length - 1) * percent) / 100;
  const below = Math.floor(at);
  return below + 1 < sorted.length ? sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]) : sorted[below];
}

// --- the comparison ---------------------------------------------------------------------------------------------

function benchServe(port, folder) {
  const prompts = join(folder, 'prompts.jsonl');
  const result = join(folder, 'result.json');
  writeFileSync(prompts, Array.from({ length: PROMPTS }, (_, i) => JSON.stringify({ id: i, prompt: 'p' })).join('\n'));
  const args = ['bench', 'serve', '--base-url', `http://127.0.0.1:${port}/v1`, '--model', 'm', '--dataset-path', prompts,
    '--max-concurrency', `${CONCURRENCY}`, '--output-len', `${TOKENS}`, '--result-json', result, '--save-result',
    '--result-dir', folder, '--result-filename', 'vllm.json', '--output-file', join(folder, 'sglang.jsonl'),
    '--max-client-lag-ms', '1000', '--disable-tqdm', '--disable-ignore-eos'];
  return new Promise((done, fail) => {
    const child = spawn(BINARY, args);
    let text = '';
    child.stdout.on('data', (bytes) => (text += bytes));
    child.stderr.on('data', (bytes) => (text += bytes));
    child.on('error', fail);
    child.on('close', (code) => {
      if (code !== 0) return fail(new Error(`bench serve ended with ${code}:\n${text}`));
      done(JSON.parse(readFileSync(result, 'utf8')));
    });
  });
}

test('bench serve and another client measure the same', { timeout: 240_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'bench-measures-'));
  const server = await startServer();
  const { port } = server.address();
  let worst;
  try {
    // The machine may be busy in one of the two runs; what is measured must agree when it is not.
    for (let attempt = 0; attempt < TRIES; ++attempt) {
      const ours = await benchServe(port, folder);
      const theirs = await measureHere(port);
      assert.equal(ours.completed, PROMPTS);
      assert.equal(ours.total_output_tokens, PROMPTS * TOKENS);
      assert.equal(ours.run.counts.completed, PROMPTS);
      const mean = (samples) => samples.reduce((sum, x) => sum + x, 0) / samples.length;
      const pairs = { output_throughput: [ours.output_throughput, theirs.output_throughput],
        request_throughput: [ours.request_throughput, theirs.request_throughput] };
      for (const metric of ['ttft', 'e2el', 'tpot', 'itl']) {
        pairs[`mean ${metric}`] = [ours[`mean_${metric}_ms`], mean(theirs[metric])];
      }
      for (const metric of ['ttft', 'e2el', 'tpot']) {
        pairs[`median ${metric}`] = [ours[`median_${metric}_ms`], percentile(theirs[metric], 50)];
        pairs[`p99 ${metric}`] = [ours[`p99_${metric}_ms`], percentile(theirs[metric], 99)];
      }
      worst = Object.entries(pairs).map(([name, [a, b]]) => ({ name, bench: a, other: b, off: Math.abs(a / b - 1) }))
        .sort((a, b) => b.off - a.off)[0];
      console.log(`# worst: ${worst.name} ${worst.bench} and ${worst.other}, ${(100 * worst.off).toFixed(2)} % apart`);
      if (worst.off <= 0.01) break;
    }
    assert.ok(worst.off <= 0.01, `${worst.name}: ${worst.bench} and ${worst.other}`);
    const vllm = JSON.parse(readFileSync(join(folder, 'vllm.json'), 'utf8'));
    assert.equal(vllm.completed, PROMPTS);
    const line = readFileSync(join(folder, 'sglang.jsonl'), 'utf8').split('\n')[0];
    assert.equal(JSON.parse(line.replace('Infinity', 'null')).completed, PROMPTS);
  } finally {
    server.closeAllConnections();
    server.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
