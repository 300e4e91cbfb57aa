"""Turns the unpacked packages of setup.sh into plain text documents.

Writes work/corpus/<kind>.<train|heldout>.jsonl, one {"name", "text"} per line, and for the kind "chat" one
{"name", "messages"} per line. The output depends on nothing but the packages: files are visited in sorted order and
the split and the chat templates are chosen by hashes of names.
"""
import hashlib
import html.parser
import json
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
SRC = HERE / "work/src"
OUT = HERE / "work/corpus"
HELDOUT_SHARE = 0.02
HELDOUT_MIN = 3  # documents per kind
CHAT_CHARS = (120, 1400)  # length of an answer
CHAT_SHARE = 0.08  # of all training text

SQLITE_SKIP = re.compile(r"crossref|requirements|syntaxdiagrams|capi3ref|releaselog/|/session/|keyword_index|toc\.html|"
                         r"sitemap|docs\.html|/syntax/|doclist|changes\.html|fileformat2|sqlanalyze|oldnews")
PYTHON_SKIP = re.compile(r"genindex|modindex|search\.html|contents\.html|changelog\.html|download\.html|/index\.html|_static")
POSTGRES_SKIP = re.compile(r"index\.html|bookindex|biblio|release|features|contrib-|errcodes|sql-keywords")

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
SKIP_TAGS = {"script", "style", "nav", "svg", "form", "button", "head", "select", "textarea"}
SKIP_CLASSES = {"nosearch", "related", "sphinxsidebar", "footer", "navheader", "navfooter", "toc", "mobile-nav",
                "headerlink", "imgcontainer", "clearer"}
BLOCKS = {"p", "div", "section", "ul", "ol", "dl", "table", "blockquote", "dd", "center", "article", "main", "body"}
ASCII = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": " - ",
                       "\u00a0": " ", "\u2026": "...", "\u2212": "-", "\u2192": "->", "\u00b6": "", "\u200b": "",
                       "\ufeff": "", "\u2022": "*", "\r": ""})


class TextOf(html.parser.HTMLParser):
    """Collects blocks of text: headings as '## ...', list items as '- ...', preformatted text as it stands."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.blocks, self.line, self.prefix = [], [], ""
        self.skip = []  # open tags inside a skipped element, the outermost first
        self.pre = 0

    def flush(self):
        text = "".join(self.line)
        self.line = []
        if self.pre:
            text = "\n".join(row.rstrip() for row in text.split("\n")).strip("\n")
        else:
            text = re.sub(r"\s+", " ", text).strip()
        if text:
            self.blocks.append((self.prefix, text))
            self.prefix = ""

    def handle_starttag(self, tag, attrs):
        if tag in VOID:
            if tag == "br" and not self.skip:
                self.line.append("\n" if self.pre else " ")
            return
        classes = set((dict(attrs).get("class") or "").split())
        if self.skip or tag in SKIP_TAGS or classes & SKIP_CLASSES:
            # HTML lets these stay open, so they must not be waited for.
            if tag not in ("p", "li", "td", "tr", "th", "dt", "dd", "option"):
                self.skip.append(tag)
            return
        if tag == "pre":
            self.flush()
            self.pre += 1
        elif re.fullmatch(r"h[1-6]", tag):
            self.flush()
            self.prefix = "#" * int(tag[1]) + " "
        elif tag == "li":
            self.flush()
            self.prefix = "- "
        elif tag in ("tr", "dt"):
            self.flush()
        elif tag in ("td", "th"):
            if "".join(self.line).strip():
                self.line.append(" | ")
        elif tag in BLOCKS and not self.pre:
            self.flush()

    def handle_endtag(self, tag):
        if self.skip:
            if tag in self.skip:
                while self.skip.pop() != tag:
                    pass
            return
        if tag == "pre" and self.pre:
            self.flush()
            self.pre -= 1
        elif re.fullmatch(r"h[1-6]|li|tr|dt", tag) or (tag in BLOCKS and not self.pre):
            self.flush()
            self.prefix = ""

    def handle_data(self, data):
        if not self.skip:
            self.line.append(data)


def clean(text):
    text = text.translate(ASCII)
    text = "".join(c for c in text if c == "\n" or c == "\t" or c.isprintable())
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def html_text(path):
    parser = TextOf()
    parser.feed(path.read_text("utf-8", "replace"))
    parser.close()
    parser.flush()
    out = []
    for i, (prefix, text) in enumerate(parser.blocks):
        # Items of one list stand on following lines, everything else is set apart by an empty line.
        tight = i and prefix == "- " and parser.blocks[i - 1][0] == "- "
        out.append(("\n" if tight else "\n\n") + prefix + text)
    return clean("".join(out))


def html_documents(root, skip):
    for path in sorted(root.rglob("*.html")):
        name = path.relative_to(root).as_posix()
        if not path.is_symlink() and not skip.search("/" + name):
            text = html_text(path)
            if len(text) > 400:
                yield name, text


def plain_documents(root, skip=()):
    for path in sorted(root.glob("*.txt")):
        if path.stem in skip:
            continue
        paragraphs = [re.sub(r"\s+", " ", p).strip() for p in re.split(r"\n\s*\n", path.read_text("utf-8", "replace"))]
        yield path.stem, clean("\n\n".join(p for p in paragraphs if p))


def documents():
    doc = "usr/share/doc"
    return {
        "sqlite": list(html_documents(SRC / "sqlite3-doc" / doc / "sqlite3", SQLITE_SKIP)),
        "postgres": list(html_documents(SRC / "postgresql-doc-15" / doc / "postgresql-doc-15/html", POSTGRES_SKIP)),
        "python": list(html_documents(SRC / "python3.11-doc" / doc / "python3.11/html", PYTHON_SKIP)),
        "speech": list(plain_documents(SRC / "stdlib/package/sotu/data")),
        "novel": list(plain_documents(SRC / "stdlib/package/moby-dick/data", skip=("data", "contents"))),
    }


def digest(*parts):
    return int(hashlib.sha256("/".join(parts).encode()).hexdigest()[:12], 16)


def heldout_names(kind, docs):
    """The first documents in hash order, until they hold the wanted share of the documents and of the text."""
    total, size, names = sum(len(text) for _, text in docs), 0, set()
    for name, text in sorted(docs, key=lambda doc: digest(kind, doc[0])):
        if len(names) >= max(HELDOUT_MIN, len(docs) * HELDOUT_SHARE) and size >= total * HELDOUT_SHARE:
            break
        names.add(name)
        size += len(text)
    return names


MANUALS = {"sqlite": "SQLite", "postgres": "PostgreSQL", "python": "Python"}
QUESTIONS = ["Explain {t}.", "What does the {m} manual say about {t}?", "What does the section \"{t}\" say?", "Tell me about {t} in {m}.",
             "{m}: {t}", "How does {t} work in {m}?", "Please describe {t}.", "I have a question about {m}. What is {t}?"]
SYSTEMS = ["You are a helpful assistant.", "You answer questions about {m}."]


def sections(text):
    """(heading, body) of each section whose body is long enough to be an answer."""
    parts = re.split(r"^#+ (.+)$", text, flags=re.M)
    for heading, body in zip(parts[1::2], parts[2::2]):
        heading = re.sub(r"^(Appendix )?[\dA-Z.]+\.\s*", "", heading).strip()
        body = body.strip()
        if len(body) > CHAT_CHARS[1]:
            cut = body.rfind("\n\n", 0, CHAT_CHARS[1])
            body = body[:cut].strip() if cut > 0 else ""
        if len(body) >= CHAT_CHARS[0] and 2 < len(heading) < 80:
            yield heading, body


def chat_samples(kind, name, text):
    manual = MANUALS[kind]
    for heading, body in sections(text):
        pick = digest("chat", kind, name, heading)
        if pick % 5 == 0 and "\n\n" in body:
            first, rest = body.split("\n\n", 1)
            question, answer = "Continue: " + first, rest
        else:
            question, answer = QUESTIONS[pick // 5 % len(QUESTIONS)].format(t=heading, m=manual), body
        if len(answer) < 80 or len(question) > 600:
            continue
        messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        if pick // 50 % 4 == 0:
            messages.insert(0, {"role": "system", "content": SYSTEMS[pick // 500 % 2].format(m=manual)})
        yield {"name": f"{kind}/{name}#{heading}", "messages": messages}


def write(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    chat = {"train": [], "heldout": []}
    total = 0
    for kind, docs in documents().items():
        held = heldout_names(kind, docs)
        for part in ("train", "heldout"):
            mine = [(n, t) for n, t in docs if (n in held) == (part == "heldout")]
            write(OUT / f"{kind}.{part}.jsonl", ({"name": n, "text": t} for n, t in mine))
            size = sum(len(t) for _, t in mine)
            print(f"{kind:9} {part:8} {len(mine):5} documents {size / 1e6:7.3f} MB")
            if part == "train":
                total += size
            if kind in MANUALS:
                chat[part] += [row for n, t in mine for row in chat_samples(kind, n, t)]
    size_of = lambda row: sum(len(m["content"]) for m in row["messages"])
    chat["train"].sort(key=lambda row: digest("order", row["name"]))
    budget, kept = total * CHAT_SHARE, []
    for row in chat["train"]:
        if budget > 0:
            kept.append(row)
            budget -= size_of(row)
    chat["train"] = kept
    for part, rows in chat.items():
        write(OUT / f"chat.{part}.jsonl", rows)
        print(f"chat      {part:8} {len(rows):5} samples   {sum(map(size_of, rows)) / 1e6:7.3f} MB")


if __name__ == "__main__":
    main()
