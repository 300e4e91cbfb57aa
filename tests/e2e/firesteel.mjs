// Starts the real binary for a test and stops it again.
import { spawn, spawnSync } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
export const binary = process.env.FIRESTEEL_BINARY ?? path.join(root, 'build/release/firesteel');
export const target = path.join(root, 'models/demo/target');
export const dspark = path.join(root, 'models/demo/dspark');

// Runs to the end; gives {status, stdout, stderr}.
export function run(args, options = {}) {
  return spawnSync(binary, args, { encoding: 'utf8', timeout: 120_000, ...options });
}

// Resolves when the server says that it serves: {url, process, exited, stop()}.
export async function serve(args) {
  const child = spawn(binary, ['serve', ...args, '--port', '0'], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  const exited = new Promise((resolve) => child.on('exit', (code, signal) => resolve(code ?? signal)));
  const url = await new Promise((resolve, reject) => {
    const onData = (chunk) => {
      output += chunk;
      const match = output.match(/serving \S+ on (http:\/\/\S+)/);
      if (match) resolve(match[1]);
    };
    child.stdout.on('data', onData);
    child.stderr.on('data', onData);
    exited.then((code) => reject(new Error(`server ended with ${code} before it served:\n${output}`)));
  });
  const stop = async () => {
    child.kill('SIGTERM');
    return exited;
  };
  return { url, process: child, exited, stop, output: () => output };
}
