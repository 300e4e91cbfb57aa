// llama.cpp on the CPU, by batches of tokens: the calls under node-llama-cpp's own classes, which
// offer no batch of several rows of one sequence.
import {getLlama, LlamaLogLevel} from "node-llama-cpp";

const F32 = 0; // of ggml's types

export class LlamaContext {
  // `kv`: "f16" (llama.cpp's default) or "f32".
  static async load(path, {threads, contextSize, sequences = 1, batchSize = 512, kv = "f16"}) {
    const llama = await getLlama(
        {gpu: false, build: "never", skipDownload: true, progressLogs: false,
         logLevel: LlamaLogLevel.error, maxThreads: threads});
    const {AddonModel, AddonContext, AddonSampler} = llama._bindings;
    if (!AddonModel || !AddonContext?.prototype.decodeBatch) {
      throw new Error("node-llama-cpp: no decodeBatch, expected version 3.21.1");
    }
    const model = new AddonModel(path, {addonExports: llama._bindings, gpuLayers: 0, useMmap: false});
    if (!await model.init()) throw new Error(`${path}: llama.cpp cannot load it`);
    const type = kv === "f32" ? {kvCacheKeyType: F32, kvCacheValueType: F32} : {};
    const context = new AddonContext(
        model, {contextSize: contextSize * sequences, batchSize, sequences, threads, ...type});
    if (!await context.init()) throw new Error(`${path}: llama.cpp cannot make a context`);
    return new LlamaContext(llama, model, context, new AddonSampler(model));
  }

  constructor(llama, model, context, sampler) {
    Object.assign(this, {llama, model, context, sampler});
    sampler.applyConfig({temperature: 0});
  }

  // Decodes pieces of {sequence, first, tokens, logits: rows whose logits are wanted} as one batch.
  // Returns milliseconds and where each wanted row's logits are.
  async decode(pieces) {
    this.context.initBatch(pieces.reduce((sum, piece) => sum + piece.tokens.length, 0));
    const logits = pieces.map(piece => this.context.addToBatch(
        piece.sequence, piece.first, Uint32Array.from(piece.tokens),
        Uint32Array.from(piece.logits)));
    const start = performance.now();
    await this.context.decodeBatch();
    return {ms: performance.now() - start, logits};
  }

  // The most likely token of a row, and how far its logit is above the second's.
  async best(row) {
    const [, list] = await this.context.sampleToken(row, this.sampler, true);
    return {token: list[0], gap: Math.log(list[1] / list[3])};
  }

  truncate(sequence, length) {
    this.context.removeTokenCellsFromSequence(sequence, length, -1);
  }

  async dispose() {
    await this.context.dispose();
    await this.model.dispose();
    await this.llama.dispose();
  }
}
