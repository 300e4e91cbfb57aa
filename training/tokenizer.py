"""Byte-level BPE: trains the 4096-entry vocabulary, writes the Hugging Face files, encodes and decodes.

`python3 tokenizer.py` reads work/corpus and writes work/tokenizer/{tokenizer,tokenizer_config,generation_config}.json.
"""
import collections
import heapq
import json
import pathlib
import unicodedata

import regex

HERE = pathlib.Path(__file__).resolve().parent
CORPUS = HERE / "work/corpus"
OUT = HERE / "work/tokenizer"
KINDS = ["sqlite", "postgres", "python", "speech", "novel", "chat"]
VOCAB = 4096
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"]
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CONTEXT = 2048

CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}"
    "{{- '<|im_start|>assistant\\n' }}"
    "{%- endif %}"
)


def byte_alphabet():
    """GPT-2's map from bytes to printable characters, in the order in which the ids are given out."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {b: chr(b) for b in printable}
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + len(table) - len(printable))
    return table


BYTE_TO_CHAR = byte_alphabet()
CHAR_TO_BYTE = {c: b for b, c in BYTE_TO_CHAR.items()}
WORDS = regex.compile(SPLIT)


def to_symbols(word):
    return [BYTE_TO_CHAR[b] for b in word.encode("utf-8")]


def train_merges(counts, wanted):
    """Classic BPE on word counts. Pair counts are kept up to date; ties go to the pair that sorts first."""
    words = [(to_symbols(word), n) for word, n in sorted(counts.items())]
    pairs, where = collections.Counter(), collections.defaultdict(set)
    for i, (symbols, n) in enumerate(words):
        for pair in zip(symbols, symbols[1:]):
            pairs[pair] += n
            where[pair].add(i)
    heap = [(-n, pair) for pair, n in pairs.items()]
    heapq.heapify(heap)
    merges = []
    while len(merges) < wanted:
        n, pair = heapq.heappop(heap)
        if pairs[pair] != -n:  # an old entry; the current count has its own
            continue
        merges.append(pair)
        changed = set()
        for i in where.pop(pair):
            symbols, n = words[i]
            for old in zip(symbols, symbols[1:]):
                pairs[old] -= n
                changed.add(old)
            symbols[:] = merge(symbols, pair)
            for new in zip(symbols, symbols[1:]):
                pairs[new] += n
                where[new].add(i)
                changed.add(new)
        for p in changed:
            if pairs[p] > 0:
                heapq.heappush(heap, (-pairs[p], p))
    return merges


def merge(symbols, pair):
    out, i = [], 0
    while i < len(symbols):
        if i + 1 < len(symbols) and symbols[i] == pair[0] and symbols[i + 1] == pair[1]:
            out.append(pair[0] + pair[1])
            i += 2
        else:
            out.append(symbols[i])
            i += 1
    return out


def tokenizer_json(merges, specials):
    vocab = [BYTE_TO_CHAR[b] for b in range(256)] + [a + b for a, b in merges]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": len(vocab) + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True} for i, text in enumerate(specials)],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False}, byte_level]},
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                  "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {token: i for i, token in enumerate(vocab)}, "merges": [f"{a} {b}" for a, b in merges]},
    }


def write_files(folder, merges, specials=SPECIALS, context=CONTEXT):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    data = tokenizer_json(merges, specials)
    added = data["added_tokens"]
    ids = {t["content"]: t["id"] for t in added}
    config = {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": {str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in added},
        "bos_token": None,
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "mask_token": "<|mask|>",
        "model_max_length": context,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }
    generation = {"bos_token_id": ids["<|endoftext|>"], "do_sample": True, "temperature": 0.8, "top_p": 0.95,
                  "eos_token_id": [ids["<|im_end|>"], ids["<|endoftext|>"]], "pad_token_id": ids["<|endoftext|>"]}
    for name, value in (("tokenizer", data), ("tokenizer_config", config), ("generation_config", generation)):
        (folder / f"{name}.json").write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", "utf-8")


class Tokenizer:
    """Reads a tokenizer.json of the form written above."""

    def __init__(self, folder):
        data = json.loads((pathlib.Path(folder) / "tokenizer.json").read_text("utf-8"))
        self.vocab = data["model"]["vocab"]
        self.ranks = {tuple(m.split(" ")): i for i, m in enumerate(data["model"]["merges"])}
        self.special = {t["content"]: t["id"] for t in data["added_tokens"]}
        self.tokens = {i: t for t, i in self.vocab.items()}
        self.specials_re = regex.compile("(" + "|".join(map(regex.escape, self.special)) + ")")
        self.cache = {}

    def encode_word(self, word):
        ids = self.cache.get(word)
        if ids is None:
            symbols = to_symbols(word)
            while len(symbols) > 1:
                best = min(zip(symbols, symbols[1:]), key=lambda p: self.ranks.get(p, 1 << 30))
                if best not in self.ranks:
                    break
                symbols = merge(symbols, best)
            ids = self.cache[word] = [self.vocab[s] for s in symbols]
        return ids

    def encode(self, text):
        """Plain text; special tokens written out in it stay ordinary characters."""
        return [i for word in WORDS.findall(unicodedata.normalize("NFC", text)) for i in self.encode_word(word)]

    def encode_with_specials(self, text):
        return [i for part in self.specials_re.split(text)
                for i in ([self.special[part]] if part in self.special else self.encode(part))]

    def chat(self, messages, add_generation_prompt=False):
        text = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
        return text + ("<|im_start|>assistant\n" if add_generation_prompt else "")

    def decode(self, ids):
        names = {i: t for t, i in self.special.items()}
        data = b"".join(names[i].encode() if i in names else bytes(CHAR_TO_BYTE[c] for c in self.tokens[i]) for i in ids)
        return data.decode("utf-8", "replace")


def rows(kind, part):
    with open(CORPUS / f"{kind}.{part}.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def main():
    counts = collections.Counter()
    for kind in KINDS[:-1]:
        for row in rows(kind, "train"):
            counts.update(WORDS.findall(unicodedata.normalize("NFC", row["text"])))
    merges = train_merges(counts, VOCAB - 256 - len(SPECIALS))
    write_files(OUT, merges)
    print(f"{len(counts)} distinct words, {len(merges)} merges; last: {merges[-5:]}")


if __name__ == "__main__":
    main()
