"""Writes chat_golden.json: what python3-jinja2, set up as Hugging Face sets it up, makes of templates and messages.

/usr/bin/python3 make_chat_golden.py      (Debian's python3-jinja2)
"""
import datetime
import json
import pathlib
import random

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).resolve().parent
BOS, EOS = "<|begin_of_text|>", "<|eot_id|>"


class Raised(Exception):
    pass


def raise_exception(message):
    raise Raised(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


ENV = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
ENV.filters["tojson"] = tojson
ENV.globals["raise_exception"] = raise_exception
ENV.globals["strftime_now"] = lambda f: datetime.datetime.now().strftime(f)

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Weather in a city, in °C — or “none”.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "Name, e.g. \"Köln\""}, "days": {"type": "integer", "default": 3, "minimum": 1},
        "scale": {"type": "number", "default": 1.0, "enum": [0.5, 1.0, 1e-7, 1e22, 123456789.25]}}, "required": ["city"],
        "additionalProperties": False, "x": None, "empty": {}, "none": []}}}
TIME = {"type": "function", "function": {"name": "time", "description": "now\n\ttab \\ back", "parameters": {}}}


def system(text): return {"role": "system", "content": text}
def user(text): return {"role": "user", "content": text}
def assistant(text, **more): return {"role": "assistant", "content": text, **more}
def tool(text): return {"role": "tool", "content": text}
def call(name, arguments): return {"type": "function", "function": {"name": name, "arguments": arguments}}


CONVERSATIONS = {
    "one": [user("Hello!")],
    "system": [system("You are terse.\nVery."), user("Hi")],
    "turns": [system("S"), user("a"), assistant("b"), user("c"), assistant("d"), user("  e \n")],
    "ends_with_assistant": [user("a"), assistant("b")],
    "late_system": [user("a"), system("from now on"), user("b")],
    "empty": [system(""), user(""), assistant(""), user("")],
    "unicode": [system("Ünï 你好"), user("😀👍🏽 \u0301é\u2028\u00a0"), assistant("<|im_end|> 'quoted' \"double\" \\ \t")],
    "newlines": [user("\n\nx\r\ny\n\n"), assistant("\n\n  z\n")],
    "thinking": [user("2+2?"), assistant("<think>\nFour, I think.\n</think>\n\n4"), user("3+3?"), assistant("<think>\nSix.\n</think>\n\n6")],
    "thinking_last": [user("2+2?"), assistant("<think>\n\n</think>\n\nempty"), user("go"), assistant("<think>a</think><think>b</think>c")],
    "reasoning": [user("q"), assistant("a", reasoning_content="why\n"), user("q2"), assistant("a2", reasoning_content="\nbecause")],
    "tool_call": [user("Weather?"), assistant("", tool_calls=[call("get_weather", {"city": "Köln", "days": 2})]), tool("12 °C"), assistant("Cold.")],
    "tool_calls": [user("Both?"), assistant("Let me see.", tool_calls=[call("get_weather", {"city": "A\"B"}), call("time", {})]),
                   tool("1"), tool("2"), user("<tool_response>x</tool_response>"), assistant("done")],
    "tool_string": [user("Weather?"), assistant("x", tool_calls=[call("get_weather", "{\"city\": 1}")]), tool("{\"t\": 1}")],
    "bare_call": [user("q"), assistant("", tool_calls=[{"name": "time", "arguments": {"a": [1, 2.5, None, True, "ü"]}}]), tool("t")],
    "no_user": [system("only me")],
    "list_content": [user([{"type": "text", "text": "hi"}]), assistant("x")],
    "null_content": [user("x"), assistant(None, tool_calls=[call("time", {"when": "now"})]), tool("noon")],
    "missing_content": [{"role": "user"}],
    "none": [],
}

cases = []


def add(name, template, messages, tools=None, prompt=True, **kwargs):
    """`template` is a file in templates/ or a source."""
    case = {"name": name, "template": template, "messages": messages, "tools": tools, "prompt": prompt, "kwargs": kwargs}
    path = HERE / "templates" / template if template.endswith(".jinja") else None
    source = path.read_text("utf-8") if path else template
    try:
        variables = {"bos_token": BOS, "eos_token": EOS, "messages": messages, "tools": tools, "add_generation_prompt": prompt, **kwargs}
        case["expected"] = ENV.from_string(source).render(**variables)
    except Raised as error:
        case["raised"] = str(error)
    except Exception as error:  # whatever fails there must fail here
        case["failed"] = f"{type(error).__name__}: {error}"
    cases.append(case)


for template in sorted(p.name for p in (HERE / "templates").iterdir()):
    for name, messages in CONVERSATIONS.items():
        for tools in (None, [TIME, WEATHER]):
            for prompt in (True, False):
                count = len(tools) if tools else 0
                extra = {"date_string": "26 Jul 2024"} if template == "llama32.jinja" else {}
                add(f"{template} {name} tools={count} prompt={prompt}", template, messages, tools, prompt, **extra)
    for thinking in (True, False, None):
        add(f"{template} thinking={thinking}", template, CONVERSATIONS["turns"], None, True, enable_thinking=thinking, date_string="x")
for more in ({"tools_in_user_message": False}, {"builtin_tools": ["code_interpreter", "brave_search"]}, {"builtin_tools": ["get_weather"]},
             {"custom_tools": [TIME]}):
    for name in ("turns", "tool_call", "none"):
        add(f"llama32 {name} {more}", "llama32.jinja", CONVERSATIONS[name], [WEATHER], True, date_string="1 Jan 2025", **more)

randomizer = random.Random(5)
PIECES = ["a", " ", "\n", "<think>", "</think>", "<tool_response>", "</tool_response>", "é", "你", "\"", "'", "\\", "\t", "x y"]
for number in range(150):
    messages = []
    for _ in range(randomizer.randrange(1, 8)):
        text = "".join(randomizer.choice(PIECES) for _ in range(randomizer.randrange(0, 7)))
        message = {"role": randomizer.choice(["system", "user", "user", "assistant", "assistant", "tool"]), "content": text}
        if message["role"] == "assistant" and randomizer.random() < 0.3:
            message["tool_calls"] = [call("f", {"x": text})] * randomizer.randrange(0, 3)
        if message["role"] == "assistant" and randomizer.random() < 0.3:
            message["reasoning_content"] = text[::-1]
        messages.append(message)
    for template in ("qwen3.jinja", "llama32.jinja"):
        add(f"random {number} {template}", template, messages, randomizer.choice([None, [TIME]]), randomizer.random() < 0.5, date_string="d")

DATA = {"n": 7, "f": 2.5, "s": "Hello World", "l": [3, 1, 2], "d": {"b": 1, "a": "x", "C": None}, "u": "äöü😀", "t": True, "z": None,
        "rows": [{"k": "b", "v": 2, "in": {"w": "q"}}, {"k": "a", "v": 1}, {"k": "B", "v": 2, "in": {"w": "p"}}], "e": [], "long": " x \n y "}
SNIPPETS = r"""
{{ n + 1 }} {{ n - 10 }} {{ n * 2 }} {{ n / 2 }} {{ n // 2 }} {{ n % 4 }} {{ n ** 2 }} {{ -n // 2 }} {{ -n % 4 }} {{ 2 ** -1 }}
{{ f * 2 }} {{ f // 1 }} {{ -f % 2 }} {{ 1e3 }} {{ 1e16 }} {{ 1.5e-7 }} {{ 0.1 + 0.2 }} {{ 10 / 5 }} {{ 100000000000000000000.0 }} {{ 3.0 }}
{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ not n == 7 }} {{ 'a' ~ 1 + 2 ~ 'b' }} {{ 1 ~ 2 * 3 }}
{{ n > 3 and n < 10 }} {{ 1 < n < 5 }} {{ 1 < n <= 7 }} {{ n != 7 or f }} {{ e or 'empty' }} {{ n and s }} {{ not e }} {{ true == 1 }}
{{ 'ell' in s }} {{ 3 in l }} {{ 'a' in d }} {{ 'zz' not in d }} {{ 9 not in l }} {{ s in ['Hello World'] }} {{ not 3 in l }}
{{ s[0] }} {{ s[-1] }} {{ l[-1] }} {{ l[9] }} {{ u[::-1] }} {{ u[1:3] }} {{ s[:5] }} {{ s[6:] }} {{ s[::2] }} {{ l[::-1] }} {{ l[5:] }} {{ s[-3:-1] }} {{ s[10:2:-2] }}
{{ d.a }} {{ d['b'] }} {{ d.missing }} {{ d['missing'] }}|{{ d.get('a') }} {{ d.get('q') }} {{ d.get('q', 5) }} {{ d.keys()|list }} {{ d.values()|list }} {{ d.items()|list }}
{{ missing }}|{{ missing|default('x') }} {{ z|default('x') }} {{ z|default('x', true) }} {{ ''|d('y', boolean=true) }} {{ missing|length }} {{ missing is defined }}
{{ missing.x }}
{{ z.x }}|{{ n.x }}|{{ l.x is defined }}
{{ none }} {{ true }} {{ false }} {{ None }} {{ True }} {{ [1, 'a', none, 2.0, "it's", 'q"', 'é\n\x01\u200b'] }} {{ {'a': [1], 'b': {'c': (1,)}} }} {{ () }} {{ (1, 2) }} {{ 1, 2 }}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ x }};{% endfor %}
{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% else %}none{% endfor %}{% for x in e %}x{% else %}none{% endfor %}{% for x in l if x > 9 %}x{% else %}no{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for (a, b) in [(1, 2), [3, 4]] %}{{ a }}-{{ b }} {% endfor %}{% for c in 'äb' %}{{ c }}.{% endfor %}
{% for x in l %}{% for y in l %}{{ loop.index }}{{ loop.depth }}{% endfor %}{{ loop.index }} {% endfor %}
{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %} {% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% else %}e{% endfor %}
{% set x = 0 %}{% for i in l %}{{ x }}{% set x = i %}{{ x }} {% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}
{% set ns = namespace(a=1, b='q') %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }} {% set ns.c = [ns.a] %}{{ ns.c }} {{ namespace({'k': 1}).k }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t = 1, 2 %}{{ t }}{% set c %} block {{ a }}{% set q = 5 %}{% endset %}[{{ c }}]{{ q }}
{% macro m(a, b=2, c='z') %}<{{ a }}{{ b }}{{ c }}>{% endmacro %}{{ m(1) }}{{ m(1, c=5) }}{{ m(1, 2, 3) }}{{ m() }}{{ m(b=s) | upper }}
{% macro r(n) %}{{ n }}{% if n > 0 %}{{ r(n - 1) }}{% endif %}{% endmacro %}{{ r(5) }}{% set g = 1 %}{% macro seen() %}{{ g }}{{ n }}{% endmacro %}{% set g = 2 %}{{ seen() }}
{% macro bad(a) %}{% endmacro %}{{ bad(1, 2) }}
{% macro bad(a) %}{% endmacro %}{{ bad(q=2) }}
{% if n > 100 %}a{% elif n > 5 %}b{% else %}c{% endif %}{% if e %}a{% elif z %}b{% else %}c{% endif %}{{ 'y' if t else 'n' }}{{ 'y' if e }}{{ 'a' if e else 'b' if z else 'c' }}
{{ long|trim }}|{{ 'xxaxx'|trim('x') }}|{{ s|upper }}|{{ s|lower }}|{{ 'hELLO wORLD-foo (bar)'|title }}|{{ 'hELLO wORLD'|capitalize }}|{{ 'ßöÉ'|upper }}|{{ 'ΣΑΣ'|lower }}
{{ l|length }} {{ s|length }} {{ u|length }} {{ d|count }} {{ e|length }} {{ l|first }} {{ l|last }} {{ e|first }}|{{ s|first }} {{ l|join }} {{ l|join(', ') }} {{ rows|join('-', attribute='k') }} {{ s|list }}
{{ l|reverse|list }} {{ 'abc'|reverse }} {{ d|items|list }} {{ 5|string + 'x' }} {{ '42'|int + 1 }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ '3.9'|int }} {{ 3.9|int }} {{ '2.5'|float }} {{ ' 12 '|int }} {{ 'ff'|int(base=16) }} {{ true|int }}
{{ s|replace('o', '0') }} {{ s|replace('l', 'L', 2) }} {{ s|safe }} {{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent(2, blank=true) }}|{{ 'a\nb'|indent('> ') }}
{{ rows|map(attribute='k')|list }} {{ rows|map(attribute='in.w')|list }} {{ l|map('string')|join('+') }} {{ ['a', 'b']|map('upper')|list }} {{ rows|map(attribute='q', default='d')|list }} {{ ['a ']|map('trim')|list }}
{{ rows|selectattr('v', 'equalto', 2)|map(attribute='k')|list }} {{ rows|rejectattr('in')|map(attribute='k')|list }} {{ rows|selectattr('in', 'defined')|list|length }} {{ l|select('gt', 1)|list }} {{ l|reject('odd')|list }} {{ l|select|list }} {{ rows|selectattr('k', 'in', ['a'])|list|length }}
{{ d|dictsort }} {{ d|dictsort(true) }} {{ d|dictsort(reverse=true) }} {{ {'x': 2, 'y': 1}|dictsort(by='value') }} {{ l|sort }} {{ l|sort(reverse=true) }} {{ ['b', 'A', 'a', 'B']|sort }} {{ ['b', 'A']|sort(case_sensitive=true) }} {{ rows|sort(attribute='k')|map(attribute='k')|list }} {{ [1, 2, 1, 3]|unique|list }} {{ ['a', 'A', 'b']|unique|list }}
{{ rows|sort(attribute='v')|map(attribute='k')|list }} {{ [[2, 1], [1, 5]]|sort }} {{ l|sum }} {{ l|min }} {{ l|max }} {{ rows|sum(attribute='v') }} {{ (-3)|abs }} {{ -3|abs }}
{{ d|tojson }} {{ rows|tojson }} {{ 'é"\\\n\u2028\u007f<>&'|tojson }} {{ [1.0, 1e100, -0.0, 12345678901234567890.0]|tojson }} {{ e|tojson }} {{ (1, 2)|tojson }} {{ none|tojson }} {{ {}|tojson }}
{{ rows|tojson(indent=2) }} {{ [[], {}]|tojson(indent=4) }} {{ d|tojson(sort_keys=true) }} {{ u|tojson(ensure_ascii=true) }} {{ [1, 2]|tojson(indent=0) }}
{{ missing|tojson }}
{{ n is number }}{{ s is string }}{{ l is iterable }}{{ d is mapping }}{{ l is sequence }}{{ d is sequence }}{{ s is sequence }}{{ z is none }}{{ t is boolean }}{{ t is true }}{{ t is false }}{{ n is integer }}{{ f is float }}{{ t is integer }}{{ t is number }}{{ n is odd }}{{ n is even }}{{ n is divisibleby 7 }}{{ n is equalto 7 }}{{ n is eq(7) }}{{ n is not none }}{{ not n is none }}{{ n is in [7] }}{{ missing is undefined }}{{ s is lower }}{{ missing is iterable }}{{ n is mapping }}
{{ ' a '.strip() }}|{{ 'xxa'.lstrip('x') }}|{{ 'axx'.rstrip('x') }}|{{ 'a,b,c'.split(',') }}{{ ' a  b '.split() }}{{ 'a,b,c'.split(',', 1) }}{{ 'a b c'.split(none, 1) }}{{ 'a b  c '.split(maxsplit=1) }}{{ s.startswith('Hell') }}{{ s.endswith(('x', 'd')) }}{{ s.upper() }}{{ s.lower() }}{{ s.replace('o', '') }}{{ 'a'.join(['x', 'y']) }}{{ "they're bill's".title() }}{{ 'abc'.find('c') }}{{ 'aXbX'.count('X') }}{{ 'hELLO'.capitalize() }}{{ ''.split(',') }}{{ ''.split() }}{{ 'abc'.replace('', '-') }}{{ 'abc'.replace('', '-', 2) }}
{{ '\u2003x\u001c\u00a0'.strip() }}|{{ ('a</think>b</think>c').split('</think>')[-1] }}|{{ 'x'.startswith('') }}
{{ range(5)|list }} {{ range(1, 4)|list }} {{ range(5, 0, -2)|list }} {{ range(0)|list }} {{ dict(a=1, b=[2]) }} {{ [1] + [2] }} {{ (1,) + (2,) }} {{ [0] * 3 }} {{ 'ab' * 2 }} {{ 2 * 'x' }} {{ [1, 2] == [1, 2] }} {{ [1] == (1,) }} {{ {'a': 1} == {'a': 1.0} }} {{ [1, 2] < [1, 3] }} {{ 'a' < 'b' }}
{{ 'a' 'b' "c" }} {{ 'tab\tnew\nq\'s \x41\u00e9\U0001F600\\ \q' }} {{ "dq'\"" }} {{ 1_000 }}
{# comment #}a{#- strip -#}   b   {#- x #}
  {% if true %}
    indented
  {% endif %}
  end {{ n }}
	{%+ if true %}kept{% endif +%}
x {%- if true -%}   y   {%- endif -%}   z
{{- n -}}   w
a
   {{ n }}
   {# c #}
b
{% raw %}{{ not }} {% this %}{% endraw %}
{%- raw -%}  {# x #}  {%- endraw %}  q
  {% for x in l %}
  - {{ x }}
  {% endfor %}
tail
{{ raise_exception('told so: ' ~ n) }}
{{ n + 'x' }}
{{ 'x' + none }}
{{ 'a' < 1 }}
{{ l.foo() }}
{{ unknown_function() }}
{{ 1 / 0 }}
{{ n|no_such_filter }}
{{ n is no_such_test }}
{% for x in n %}{% endfor %}
{% for a, b in l %}{% endfor %}
{{ d|dictsort|first|first }} {{ ({'a': {'b': [10, 20]}}).a.b[1] }} {{ [[1, 2], [3]][0][1] }} {{ (l|sort)[0] }} {{ l|sort|first }} {{ [1,2,3,][1] }} {{ {'a': 1,}.a }}
{{ [l, l]|map('length')|sum }} {{ 'a' in ('a', 'b') }} {{ n in (1, 7) and s }} {{ 'k' in rows[0] }} {{ rows[0].k ~ rows[1]['k'] }} {{ rows[-1].in.w }}
{% generation_like %}
{% if n %}unclosed
{{ n
{{ 'unclosed }}
{% endfor %}
{{ (1 }}
{{ n.5 }}
{{ s.format }}x
{{ }}
{% set x %}
{% for x in %}{% endfor %}
"""
blocks, block = [], []
# Lines that belong together, where white space between them is what is tested.
JOINED = {"{# comment #}a": 19}
lines = SNIPPETS.strip("\n").split("\n")
i = 0
while i < len(lines):
    size = next((n for prefix, n in JOINED.items() if lines[i].startswith(prefix)), 1)
    blocks.append("\n".join(lines[i:i + size]))
    i += size
SKIP = {"{{ s.format }}x", "{% generation_like %}"}
for source in blocks:
    if source not in SKIP:
        add("snippet " + source[:60], source, [], None, False, **DATA)
for source in ["a\n", "a\n\n", "\n{% if true %}\nx\n{% endif %}\n", "{% if true %}\n\nx{% endif %}", "a\r\nb\rc\n", " {% if true %} x {% endif %} ", "{% if true %}  {% if true %}y{% endif %}{% endif %}",
               "x  \n  {%- if true %}\n  y{% endif %}", "{# a #}\n{# b #}\nc", "  {# a #}  {# b #}\nc", "{{ n }}\n{{ n }}\n", "{% raw %}\n x {% endraw %}\n y", "  {% raw %} a\n  {% endraw %}b", "{", "{ {", "a{", "}}", "%}", "{{ {'a': {'b': 1}}}}", "{{ {'a': 1}['a'] }}", "",
               "{%- set x = 1 -%}\n\n{{ x }}", "{{ '{{ }} {% %} {# #}' }}", "{% if n %}{{ '%}' }}{% endif %}", "{{ n }} {#\n multi\n #}\n x", "\u00e9{{ u }}\u4f60", "{{'a'}}{{-'b'}}   {{-'c'-}}   d", "{%if n%}x{%endif%}"]:
    add("whitespace " + repr(source), source, [], None, False, **DATA)

(HERE / "chat_golden.json").write_text(
    "[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]\n", "utf-8")
kinds = {k: sum(k in c for c in cases) for k in ("expected", "raised", "failed")}
print(len(cases), "cases", kinds, "with jinja2", jinja2.__version__)
