"""Writes models/demo/prompts.jsonl: prompts of 40 to 160 tokens from held-out documents, the kinds taking turns."""
import hashlib
import json
import os
import pathlib
import re

import tokenizer as tok

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "models/demo/prompts.jsonl"
PER_KIND = 36
TOKENS = (40, 160)


def digest(text):
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16)


def cut(tokenizer, text, wanted):
    """The beginning of `text` that has at least `wanted` tokens, cut between words, or None."""
    count, end = 0, 0
    for match in tok.WORDS.finditer(text):
        if count >= wanted and text[match.start()] == " ":
            break
        count += len(tokenizer.encode_word(match.group()))
        end = match.end()
    text = text[:end]
    return text if TOKENS[0] <= len(tokenizer.encode(text)) <= TOKENS[1] else None


def text_prompts(tokenizer, kind):
    """Candidates begin with a paragraph; in speeches, which have none, with a sentence."""
    start = re.compile(r"[.!?] (?=[A-Z])" if kind == "speech" else r"(?:^|\n\n)(?=[A-Za-z#])")
    for row in tok.rows(kind, "heldout"):
        for match in start.finditer(row["text"]):
            begin = match.end()
            wanted = TOKENS[0] + digest(f"{row['name']}@{begin}") % (TOKENS[1] - TOKENS[0] - 10)
            prompt = cut(tokenizer, row["text"][begin:begin + 2000], wanted)
            if prompt:
                yield {"prompt": prompt}


def chat_prompts(tokenizer):
    """The rendered template up to the answer; the messages stand beside it for a chat endpoint.

    Questions are as held out, and where one is too short, the user has the first paragraph of its answer continued.
    """
    for row in tok.rows("chat", "heldout"):
        *before, answer = row["messages"]
        first = answer["content"].split("\n\n")[0]
        for messages in (before, before[:-1] + [{"role": "user", "content": "Continue: " + first}]):
            prompt = tokenizer.chat(messages, add_generation_prompt=True)
            if TOKENS[0] <= len(tokenizer.encode_with_specials(prompt)) <= TOKENS[1]:
                yield {"prompt": prompt, "messages": messages}
                break


def main():
    tokenizer = tok.Tokenizer(tok.OUT)
    columns = []
    for kind in tok.KINDS:
        found = list(chat_prompts(tokenizer) if kind == "chat" else text_prompts(tokenizer, kind))
        found.sort(key=lambda row: digest(row["prompt"]))
        columns.append([{**row, "kind": kind} for row in found[:PER_KIND]])
        print(kind, len(found))
    rows = [row for turn in range(PER_KIND) for column in columns for row in column[turn:turn + 1]]
    lines = [json.dumps({"id": i, **row}, ensure_ascii=False) + "\n" for i, row in enumerate(rows)]
    OUT.with_suffix(".part").write_text("".join(lines), "utf-8")
    os.replace(OUT.with_suffix(".part"), OUT)
    print(len(rows), "prompts")


if __name__ == "__main__":
    main()
