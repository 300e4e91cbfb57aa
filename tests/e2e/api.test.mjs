// The server as its clients see it: OpenAI's own library against the demo pair, with and without speculation.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { dspark, serve, target } from './firesteel.mjs';

const prompt = 'The CREATE INDEX statement is used to';
let plain, drafted, clients;

before(async () => {
  plain = await serve([target, '--spec-method', 'none', '--served-model-name', 'demo']);
  drafted = await serve([target, '--spec-method', 'dspark', '--spec-model', dspark, '--served-model-name', 'demo']);
  clients = [plain, drafted].map((s) => new OpenAI({ baseURL: `${s.url}/v1`, apiKey: 'none', maxRetries: 0 }));
});
after(async () => {
  assert.equal(await plain.stop(), 0);
  assert.equal(await drafted.stop(), 0);
});

const complete = (client, body) => client.completions.create({ model: 'demo', prompt, max_tokens: 48, ...body });

async function collect(stream) {
  const seen = { text: '', ids: [], finish: null, usage: null, chunks: 0 };
  for await (const chunk of stream) {
    seen.chunks += 1;
    if (chunk.usage) seen.usage = chunk.usage;
    for (const choice of chunk.choices) {
      seen.text += choice.text ?? choice.delta?.content ?? '';
      seen.ids.push(...(choice.token_ids ?? []));
      if (choice.finish_reason) seen.finish = choice.finish_reason;
    }
  }
  return seen;
}

test('greedy and seeded completions are the same with and without drafts', async () => {
  for (const body of [{ temperature: 0 }, { temperature: 0.8, seed: 7 }, { temperature: 1, top_p: 0.9, seed: 11 }]) {
    const answers = [];
    for (const client of clients) answers.push(await complete(client, { ...body, return_token_ids: true }));
    assert.deepEqual(answers[0].choices[0].token_ids, answers[1].choices[0].token_ids);
    assert.equal(answers[0].choices[0].text, answers[1].choices[0].text);
    assert.ok(answers[0].choices[0].text.length > 20);
  }
});

test('different seeds differ', async () => {
  const texts = new Set();
  for (const seed of [1, 2, 3]) {
    texts.add((await complete(clients[1], { temperature: 1, seed })).choices[0].text);
  }
  assert.equal(texts.size, 3);
});

test('a stream carries the same text, then usage', async () => {
  for (const client of clients) {
    const whole = await complete(client, { temperature: 0, return_token_ids: true });
    const seen = await collect(
      await complete(client, { temperature: 0, stream: true, return_token_ids: true, stream_options: { include_usage: true } }),
    );
    assert.equal(seen.text, whole.choices[0].text);
    assert.deepEqual(seen.ids, whole.choices[0].token_ids);
    assert.equal(seen.finish, whole.choices[0].finish_reason);
    assert.equal(seen.usage.completion_tokens, whole.usage.completion_tokens);
    assert.equal(seen.usage.prompt_tokens, whole.usage.prompt_tokens);
  }
});

test('the second time the prompt comes from the cache', async () => {
  const long = 'SELECT name FROM sqlite_schema WHERE type = table; '.repeat(12);
  const first = await complete(clients[1], { prompt: long, temperature: 0 });
  const second = await complete(clients[1], { prompt: long, temperature: 0 });
  assert.equal(first.choices[0].text, second.choices[0].text);
  assert.ok(second.usage.prompt_tokens_details.cached_tokens >= 16);
  assert.ok(second.usage.prompt_tokens_details.cached_tokens < second.usage.prompt_tokens);
});

test('n choices of one seeded prompt differ from each other and repeat', async () => {
  const ask = () => complete(clients[1], { n: 3, seed: 5, temperature: 1 });
  const [a, b] = [await ask(), await ask()];
  assert.equal(a.choices.length, 3);
  assert.deepEqual(a.choices.map((c) => c.text), b.choices.map((c) => c.text));
  assert.equal(new Set(a.choices.map((c) => c.text)).size, 3);
  assert.deepEqual(a.choices.map((c) => c.index).sort(), [0, 1, 2]);
});

test('stop strings cut the text and are not part of it', async () => {
  const whole = (await complete(clients[0], { temperature: 0 })).choices[0].text;
  const stop = whole.slice(12, 16);
  for (const client of clients) {
    const cut = (await complete(client, { temperature: 0, stop: [stop] })).choices[0];
    assert.equal(cut.finish_reason, 'stop');
    assert.equal(cut.text, whole.slice(0, whole.indexOf(stop)));
  }
});

test('logprobs are those of the target, with and without drafts', async () => {
  const [a, b] = await Promise.all(clients.map((c) => complete(c, { temperature: 0, logprobs: 3, max_tokens: 12 })));
  assert.equal(a.choices[0].logprobs.tokens.length, 12);
  assert.deepEqual(a.choices[0].logprobs.tokens, b.choices[0].logprobs.tokens);
  assert.deepEqual(a.choices[0].logprobs.token_logprobs, b.choices[0].logprobs.token_logprobs);
  for (const p of a.choices[0].logprobs.token_logprobs) assert.ok(p <= 0);
});

test('chat: a message in, a message out, streamed the same', async () => {
  const body = {
    model: 'demo',
    messages: [{ role: 'user', content: 'What does the section about indexes say?' }],
    temperature: 0,
    max_completion_tokens: 40,
  };
  const whole = await clients[1].chat.completions.create(body);
  assert.equal(whole.object, 'chat.completion');
  assert.equal(whole.choices[0].message.role, 'assistant');
  assert.ok(whole.choices[0].message.content.length > 0);
  const seen = await collect(await clients[1].chat.completions.create({ ...body, stream: true }));
  assert.equal(seen.text, whole.choices[0].message.content);
  const other = await clients[0].chat.completions.create(body);
  assert.equal(other.choices[0].message.content, whole.choices[0].message.content);
});

test('models, version, tokenize and detokenize', async () => {
  const models = await clients[0].models.list();
  assert.equal(models.data[0].id, 'demo');
  const post = async (path, body) =>
    (await fetch(plain.url + path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })).json();
  const { tokens, count } = await post('/tokenize', { model: 'demo', prompt: 'naïve café 😀' });
  assert.equal(tokens.length, count);
  assert.equal((await post('/detokenize', { model: 'demo', tokens })).prompt, 'naïve café 😀');
  assert.ok((await (await fetch(`${plain.url}/version`)).json()).version);
});

test('acceptance shows in the metrics, and the counters agree', async () => {
  await complete(clients[1], { temperature: 0, max_tokens: 64 });
  const text = await (await fetch(`${drafted.url}/metrics`)).text();
  const value = (name) => Number(text.match(new RegExp(`^${name}\\{[^}]*\\} ([0-9.e+]+)$`, 'm'))?.[1]);
  const drafts = value('vllm:spec_decode_num_drafts_total');
  const verified = value('vllm:spec_decode_num_draft_tokens_total');
  const accepted = value('vllm:spec_decode_num_accepted_tokens_total');
  assert.ok(drafts > 0 && verified >= accepted && accepted > 0, text);
  const positions = [...text.matchAll(/^vllm:spec_decode_num_accepted_tokens_per_pos_total\{[^}]*\} ([0-9.e+]+)$/gm)];
  assert.equal(positions.reduce((sum, m) => sum + Number(m[1]), 0), accepted);
});

test('errors are OpenAI errors that name the field', async () => {
  const cases = [
    [{ temperature: -1 }, /temperature/],
    [{ top_p: 0 }, /top_p/],
    [{ max_tokens: 0 }, /max_tokens/],
    [{ max_tokens: 'many' }, /max_tokens/],
    [{ n: 0 }, /\bn\b/],
    [{ prompt: [] }, /prompt/],
    [{ prompt: [99999999] }, /99999999|vocab/],
    [{ stop: [''] }, /stop/],
    [{ logit_bias: { 99999999: 1 } }, /logit_bias/],
    [{ stream_options: { include_usage: true } }, /stream_options/],
  ];
  for (const [body, pattern] of cases) {
    await assert.rejects(complete(clients[0], body), (error) => {
      assert.equal(error.status, 400, `${JSON.stringify(body)}: ${error}`);
      assert.match(error.message, pattern);
      return true;
    });
  }
  await assert.rejects(complete(clients[0], { model: 'other' }), (error) => error.status === 404);
});

test('a client that leaves frees its place', async () => {
  const controller = new AbortController();
  const stream = await clients[1].completions.create(
    { model: 'demo', prompt, max_tokens: 1500, ignore_eos: true, temperature: 0, stream: true },
    { signal: controller.signal },
  );
  for await (const _ of stream) break;
  controller.abort();
  for (let i = 0; ; ++i) {
    const text = await (await fetch(`${drafted.url}/metrics`)).text();
    if (/^vllm:num_requests_running\{[^}]*\} 0$/m.test(text)) break;
    assert.ok(i < 200, 'still running ten seconds after the client left');
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
});
