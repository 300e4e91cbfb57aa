// A child process that times steps on request: one line in, one line out. Idle, it waits for input
// and costs nothing.
import {spawn} from "node:child_process";
import readline from "node:readline";

export class Worker {
  // Resolves when the worker has loaded its model and said so; `greeting` is what it said.
  static async start(command, args) {
    const child = spawn(command, args, {stdio: ["pipe", "pipe", "inherit"]});
    const worker = new Worker(child, [command, ...args].join(" "));
    worker.greeting = await worker.line();
    return worker;
  }

  constructor(child, name) {
    this.child = child;
    this.name = name;
    this.lines = readline.createInterface({input: child.stdout})[Symbol.asyncIterator]();
    this.failed = new Promise((_, reject) => child.once("error", reject));
    this.failed.catch(() => {});
  }

  async line() {
    const {done, value} = await Promise.race([this.lines.next(), this.failed]);
    if (done) throw new Error(`${this.name} ended early`);
    return value;
  }

  // Figures of `calls` calls.
  async run(op, rows, context, calls) {
    this.child.stdin.write(`${op} ${rows} ${context} ${calls}\n`);
    return (await this.line()).split(" ").map(Number);
  }

  stop() {
    this.child.stdin.end();
    return new Promise(resolve => this.child.once("close", resolve));
  }
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// (largest - smallest) / median.
export const spread = values => (Math.max(...values) - Math.min(...values)) / median(values);
