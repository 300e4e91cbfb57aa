// The command line: exit codes, one clear sentence for each fault, a clean end.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, writeFileSync, cpSync, truncateSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { dspark, root, run, serve, target } from './firesteel.mjs';

const scratch = mkdtempSync(path.join(os.tmpdir(), 'firesteel-'));

// A copy of the demo target with one fault in it.
function broken(name, change) {
  const directory = path.join(scratch, name);
  cpSync(target, directory, { recursive: true });
  change(directory);
  return directory;
}
const edit = (file, f) => (directory) => {
  const p = path.join(directory, file);
  writeFileSync(p, f(readFileSync(p, 'utf8')));
};
const setConfig = (fields) => edit('config.json', (text) => JSON.stringify({ ...JSON.parse(text), ...fields }));

const faults = [
  ['no such model', ['serve', '/nowhere/model'], 1, /\/nowhere\/model/],
  ['unknown command', ['sing'], 2, /sing/],
  ['unknown flag', ['serve', target, '--spec-methd', 'none'], 2, /--spec-method/],
  ['bad number', ['serve', target, '--port', 'x'], 2, /port/],
  ['port out of range', ['serve', target, '--port', '99999'], 2, /port/],
  ['unknown method', ['serve', target, '--spec-method', 'psychic'], 2, /psychic/],
  ['block size', ['serve', target, '--block-size', '17'], 2, /block.size/],
  ['drafter missing', ['serve', target, '--spec-method', 'dspark'], 2, /spec-model/],
  ['drafter path', ['serve', target, '--spec-method', 'dspark', '--spec-model', '/nowhere'], 1, /\/nowhere/],
  ['drafter is a target', ['serve', target, '--spec-method', 'dspark', '--spec-model', target], 1, /expected method draft_model/],
  ['weights cut short', (d) => truncateSync(path.join(d, 'model.safetensors'), statSync(path.join(d, 'model.safetensors')).size - 1000), 1, /model\.safetensors/],
  ['weights empty', (d) => truncateSync(path.join(d, 'model.safetensors'), 0), 1, /model\.safetensors/],
  ['config not JSON', edit('config.json', () => '{"hidden_size": '), 1, /config\.json/],
  ['config hidden size', setConfig({ hidden_size: 128 }), 1, /\[.*\]/],
  ['config negative layers', setConfig({ num_hidden_layers: -3 }), 1, /num_hidden_layers/],
  ['config more layers', setConfig({ num_hidden_layers: 50 }), 1, /model\.layers\.\d+/],
  ['config fewer layers', setConfig({ num_hidden_layers: 2 }), 1, /model\.layers\.\d+/],
  ['config architecture', setConfig({ architectures: ['BertModel'] }), 1, /BertModel/],
  ['config head_dim odd', setConfig({ head_dim: 63 }), 1, /head_dim/],
  ['tokenizer not JSON', edit('tokenizer.json', () => 'hello'), 1, /tokenizer\.json/],
  ['tokenizer model', edit('tokenizer.json', (t) => t.replace('"BPE"', '"WordPiece"')), 1, /WordPiece/],
];

for (const [name, fault, status, pattern] of faults) {
  test(`fault: ${name}`, () => {
    const args = Array.isArray(fault) ? fault : ['serve', broken(name.replaceAll(' ', '-'), fault), '--port', '0'];
    const result = run(args);
    assert.equal(result.status, status, result.stderr + result.stdout);
    const lines = result.stderr.split('\n').filter((line) => line.startsWith('firesteel'));
    assert.equal(lines.length, 1, `expected one line that says what is wrong: ${result.stderr}`);
    assert.match(lines[0], pattern);
  });
}

test('generate writes text and a line of speed', () => {
  const result = run(['generate', target, '-p', 'The SELECT statement', '--max-tokens', '24', '--temperature', '0']);
  assert.equal(result.status, 0, result.stderr);
  assert.ok(result.stdout.length > 20);
  assert.match(result.stdout + result.stderr, /tok\/s|tokens\/s/);
});

test('generate with a drafter gives the same text', () => {
  const args = ['generate', target, '-p', 'The SELECT statement', '--max-tokens', '40', '--temperature', '0'];
  const plain = run(args);
  const drafted = run([...args, '--spec-method', 'dspark', '--spec-model', dspark]);
  assert.equal(drafted.status, 0, drafted.stderr);
  assert.equal(drafted.stdout, plain.stdout);
});

test('inspect says what the checkpoint is', () => {
  const result = run(['inspect', target]);
  assert.equal(result.status, 0, result.stderr);
  assert.match(result.stdout, /Qwen3ForCausalLM/);
});

test('SIGTERM lets an accepted request finish, then exits with 0', async () => {
  const server = await serve([target, '--served-model-name', 'demo', '--spec-method', 'none',
    '--drain-timeout-ms', '600000']);
  const response = await fetch(`${server.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'demo', prompt: 'Indexes', max_tokens: 400, ignore_eos: true, temperature: 0, stream: true }),
  });
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = decoder.decode((await reader.read()).value);
  server.process.kill('SIGTERM');
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    text += decoder.decode(value);
  }
  assert.match(text, /"finish_reason":\s*"length"/);
  assert.match(text, /data: \[DONE\]\s*$/);
  assert.equal(await server.exited, 0);
});

test('a checkpoint cut short while it is served ends the server with one sentence', async () => {
  const directory = path.join(scratch, 'shrinking');
  cpSync(target, directory, { recursive: true });
  const server = await serve([directory, '--spec-method', 'none']);
  truncateSync(path.join(directory, 'model.safetensors'), 0);
  const body = JSON.stringify({ prompt: 'Indexes', max_tokens: 4 });
  await fetch(`${server.url}/v1/completions`, { method: 'POST', body }).catch(() => {});
  assert.equal(await server.exited, 1);
  assert.match(server.output(), /firesteel: a file of the checkpoint was cut short/);
});

test('the demo fails when a wrong draft token is let through', () => {
  const output = path.join(scratch, 'grid');
  const grid = path.join(scratch, 'grid.yaml');
  const demo = readFileSync(path.join(root, 'tests/e2e/planted_fault.yaml'), 'utf8');
  writeFileSync(grid, demo.replaceAll('MODELS', path.join(root, 'models')));
  const good = run(['bench', 'grid', grid, '--output', `${output}-good`]);
  assert.equal(good.status, 0, good.stdout + good.stderr);
  writeFileSync(grid, demo.replaceAll('MODELS', path.join(root, 'models')).replace('# plant: ', ''));
  const bad = run(['bench', 'grid', grid, '--output', `${output}-bad`]);
  assert.equal(bad.status, 1, bad.stdout + bad.stderr);
  assert.match(bad.stdout, /equal: no/);
});
