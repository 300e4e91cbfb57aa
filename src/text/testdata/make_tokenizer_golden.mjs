// Writes three small tokenizers (qwen/, gpt2/, llama3/ beside this file) and tokenizer_golden.json: what Hugging Face's own
// crate makes of some hundred strings with each of them.
//
//   npm install @anush008/tokenizers && node make_tokenizer_golden.mjs      (from the folder with node_modules)
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const { Tokenizer } = createRequire(process.cwd() + "/")("@anush008/tokenizers");
const HERE = path.dirname(fileURLToPath(import.meta.url));

const SAMPLE = `
The quick brown fox jumps over the lazy dog. Speculative decoding drafts several tokens, and the target verifies them in one
step; what it accepts is what it would have written. There is nothing to lose except the time of a draft that is refused.
It isn't hard, they're told; we've seen I'll and I'd and he's and she'd. The price is 1234.50 or 2024-11-30, not 10000000.
int main(int argc, char** argv) { for (int i = 0; i < argc; ++i) { printf("%s\\n", argv[i]); } return 0; }
def render(messages, tools=None):\n    for message in messages:\n        yield message["content"] + "\\n"\n\n    return None
SELECT name, count(*) FROM sqlite_master WHERE type = 'table' GROUP BY name ORDER BY 2 DESC;
Über den Wolken muß die Freiheit wohl grenzenlos sein. Le café est près de l'église où naît l'été, déjà à Noël.
Съешь же ещё этих мягких французских булок, да выпей чаю. Привет, мир! Как дела?
你好,世界!我们在这里测试分词器。中文没有空格。你好吗?我很好。日本語のテキストも少し。こんにちは世界。
안녕하세요 세계. مرحبا بالعالم. שלום עולם. नमस्ते दुनिया. สวัสดีชาวโลก. Γειά σου Κόσμε.
😀 😀 👍 👍🏽 🎉 ❤️ 👨‍👩‍👧‍👦 🇩🇪 → ← ≤ ≥ ∑ √ ∞ “quoted” ‘single’ – dash — em … ellipsis
`.repeat(2);

const byteChars = (() => {
  const table = {};
  let next = 256;
  for (let b = 0; b < 256; ++b) {
    const printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    table[b] = String.fromCodePoint(printable ? b : next++);
  }
  return table;
})();

function trainMerges(wanted) {
  const counts = new Map();
  for (const word of SAMPLE.match(/ ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s+/gu)) {
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const words = [...counts].map(([w, n]) => [[...Buffer.from(w)].map((b) => byteChars[b]), n]);
  const merges = [];
  while (merges.length < wanted) {
    const pairs = new Map();
    for (const [symbols, n] of words) {
      for (let i = 0; i + 1 < symbols.length; ++i) {
        const key = symbols[i] + " " + symbols[i + 1];
        pairs.set(key, (pairs.get(key) ?? 0) + n);
      }
    }
    const [best] = [...pairs].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))[0];
    const [left, right] = best.split(" ");
    merges.push([left, right]);
    for (const word of words) {
      const out = [];
      for (const s of word[0]) {
        if (out.length && out[out.length - 1] === left && s === right) out[out.length - 1] = left + right;
        else out.push(s);
      }
      word[0] = out;
    }
  }
  return merges;
}

const QWEN = String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
const LLAMA3 = String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;

const byteLevel = (useRegex, prefix = false) =>
  ({ type: "ByteLevel", add_prefix_space: prefix, trim_offsets: false, use_regex: useRegex });
const split = (Regex) => ({
  type: "Sequence",
  pretokenizers: [{ type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false }, byteLevel(false)],
});

function tokenizer(merges, { added, extraVocab = [], normalizer, pre, post, ignoreMerges = false, asPairs = false }) {
  const vocab = {};
  for (let b = 0; b < 256; ++b) vocab[byteChars[b]] = b;
  for (const [a, b] of merges) if (!(a + b in vocab)) vocab[a + b] = Object.keys(vocab).length;
  for (const token of extraVocab) vocab[token] = Object.keys(vocab).length;
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  const addedTokens = added.map((t, i) => ({ id: Object.keys(vocab).length + i, ...flags, ...t }));
  const idOf = (content) => addedTokens.find((t) => t.content === content).id;
  return {
    version: "1.0", truncation: null, padding: null, added_tokens: addedTokens, normalizer, pre_tokenizer: pre,
    post_processor: post(idOf), decoder: byteLevel(true),
    model: {
      type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: asPairs ? null : "",
      end_of_word_suffix: asPairs ? null : "", fuse_unk: false, byte_fallback: false, ignore_merges: ignoreMerges,
      vocab, merges: asPairs ? merges : merges.map(([a, b]) => `${a} ${b}`),
    },
  };
}

const merges = trainMerges(420);
const TOKENIZERS = {
  qwen: tokenizer(merges, {
    added: [
      { content: "<|endoftext|>" }, { content: "<|im_start|>" }, { content: "<|im_end|>" },
      { content: "<think>", special: false }, { content: "</think>", special: false },
      { content: "<|mask|>", lstrip: true }, { content: "<|pad|>", rstrip: true },
      { content: "<|im_end|><|im_end|>" }, { content: "\u03C9\u0301", normalized: true, special: false },
      { content: "alone", single_word: true, special: false }, { content: "  both  ", lstrip: true, rstrip: true },
    ],
    normalizer: { type: "NFC" }, pre: split(QWEN), post: () => byteLevel(false),
  }),
  gpt2: tokenizer(merges, {
    added: [{ content: "<|endoftext|>", normalized: true }, { content: "<|im_end|>", rstrip: true, single_word: true }],
    normalizer: null, pre: byteLevel(true, true), post: () => byteLevel(true),
  }),
  llama3: tokenizer(merges, {
    added: [
      { content: "<|begin_of_text|>" }, { content: "<|eot_id|>" }, { content: "<|start_header_id|>" },
      { content: "<|end_header_id|>" }, { content: "<|im_end|>", special: false, normalized: true },
    ],
    extraVocab: ["\u0120undraftable", "\u0120speculation", "123"],
    normalizer: { type: "Sequence", normalizers: [] }, pre: split(LLAMA3), ignoreMerges: true, asPairs: true,
    post: (idOf) => ({
      type: "Sequence",
      processors: [byteLevel(true), {
        type: "TemplateProcessing",
        single: [{ SpecialToken: { id: "<|begin_of_text|>", type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
        pair: [{ Sequence: { id: "A", type_id: 0 } }, { Sequence: { id: "B", type_id: 1 } }],
        special_tokens: {
          "<|begin_of_text|>": { id: "<|begin_of_text|>", ids: [idOf("<|begin_of_text|>")], tokens: ["<|begin_of_text|>"] },
        },
      }],
    }),
  }),
};

const FRAGMENTS = [
  " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n ", "\u00A0", "\u180E", "\u0085", "\u2028", "\u3000", "\u200B", "\v", "\f",
  "hello", "Hello", " the", "world", "I'm", "he'S", "they'LL", "'tis", "don't", "'\u017F", "\u212Aelvin", "x'ret", "0", "7", "42",
  "123", "1234", "3.14", "\u0664\u0665", "\u00BD", "\u2167", "\u{1D7D8}", "\u4E00\u4E8C", "你好", "世界。", "日本語", "한국어",
  "\u1112\u1161\u11AB", "e\u0301", "\u00E9", "a\u0308\u0323", "\u03C9\u0301", "\u03CE", "\u212B", "n\u0303o", "\u0915\u094D\u0937", "नमस्ते",
  "مرحبا", "שלום", "สวัสดี", "😀", "👍🏽", "👨‍👩‍👧‍👦", "🇩🇪", "❤️", "\uFE0F", "\u200D", ".", ",", "!", "?!", "...", "->", "==", "{", "}", "();", "\"", "'",
  "<|im_end|>", "<|im_start|>", "<|endoftext|>", "<think>", "</think>", "<|mask|>", "<|pad|>", "<|im_", "end|>", "<|begin_of_text|>",
  "<|eot_id|>", "<|start_header_id|>", "alone", "  both  ", "_", "-", "ß", "ǅ", "ﬁ", "ŉ", "İ", "\u0000", "\u007F", "\u00AD", "\uFFFD", "\u{10FFFF}",
  "\u0300", "\uFEFF", " undraftable", " speculation", "undraftable", "Speculative decoding", " tokens", "printf(\"%s\\n\", x);", "    return None",
];
let state = 12345;
const random = (n) => {
  state = (Math.imul(state, 1103515245) + 12345) >>> 0;
  return Math.floor((state / 4294967296) * n);
};
const texts = ["", "a", ...FRAGMENTS, SAMPLE];
texts.push("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "lllllllllllllllll", "\n".repeat(40), " ".repeat(41) + "x", "1".repeat(50));
texts.push("<|im_end|>".repeat(5), "<|im_end|> <|im_end|>\n<|im_end|>", "xalone alone alone, alonex _alone alone_ éalone");
texts.push("a <|mask|> b  <|mask|><|mask|>", "a <|pad|>  b <|pad|> <|mask|> c", "<|im_start|>user\nHi!<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
while (texts.length < 420) {
  let text = "";
  for (let i = 1 + random(9); i > 0; --i) text += FRAGMENTS[random(FRAGMENTS.length)];
  texts.push(text);
}

const golden = { texts, tokenizers: {} };
for (const [name, file] of Object.entries(TOKENIZERS)) {
  fs.mkdirSync(path.join(HERE, name), { recursive: true });
  const json = JSON.stringify(file);
  fs.writeFileSync(path.join(HERE, name, "tokenizer.json"), json + "\n");
  const hf = Tokenizer.fromString(json);
  const rows = [];
  for (const text of texts) {
    const ids = (await hf.encode(text, null, { addSpecialTokens: false })).getIds();
    const withSpecials = (await hf.encode(text, null, { addSpecialTokens: true })).getIds();
    rows.push({
      ids, extra: withSpecials.length - ids.length, text: await hf.decode(withSpecials, false), plain: await hf.decode(withSpecials, true),
    });
  }
  golden.tokenizers[name] = rows;
}
fs.writeFileSync(path.join(HERE, "tokenizer_golden.json"),
  JSON.stringify(golden).replace(/\},\{/g, "},\n{") + "\n");
console.log(texts.length, "texts,", Object.keys(TOKENIZERS).length, "tokenizers");
