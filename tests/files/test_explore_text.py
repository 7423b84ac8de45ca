"""Code, logs, Markdown, HTML and prose: an outline of what stands where."""

from __future__ import annotations

from pathlib import Path

import pytest

import lcm_plugin.config.model
from lcm_plugin.files.explore import explore

PYTHON = '''"""Counts things."""

import os
from pathlib import Path

LIMIT = 5


class Counter(dict):
    """A counter."""

    async def add(self, key, *, by=1, **more):
        return by


def main(argv):
    def inner():
        pass
    return Counter()
'''


def test_python_tells_docstring_imports_classes_and_signatures() -> None:
    for name in ("count.py", ""):
        explored = explore(PYTHON.encode(), name)
        assert (explored.kind, explored.mime) == ("python", "text/x-python")
        for part in (
            "19 lines, 1 class, 3 functions",
            "Says: Counts things.",
            "Imports: os, pathlib",
            "LIMIT (line 6)",
            "class Counter(dict) (line 9)",
            "async def add(self, key, by, **more) (line 12)",
            "def main(argv) (line 16)",
        ):
            assert part in explored.summary


def test_a_real_module_is_outlined() -> None:
    path = Path(lcm_plugin.config.model.__file__)
    explored = explore(path.read_bytes(), path.name)
    assert "class LcmConfig(BaseSettings)" in explored.summary


def test_python_that_does_not_parse_is_outlined_from_its_tokens() -> None:
    explored = explore(b"class A:\n    def go(self):\n        print 'old'\n", "old.py")
    assert explored.kind == "python"
    assert "class A: (line 1)" in explored.summary
    assert "def go(self): (line 2)" in explored.summary


SOURCES = {
    "a.go": (
        """\
package main

type Server struct {
\tport int
}

func (s *Server) Run() error {
\treturn nil
}

func main() {
\tgo()
}
""",
        "go",
        ["type Server struct (line 3)", "func (s *Server) Run() error (line 7)", "func main() (line 11)"],
    ),
    "a.rs": (
        """\
use std::fmt;

pub struct P { x: i32 }

impl P {
    pub fn new(x: i32) -> Self { P { x } }
}
fn main() {
    P::new(1);
}
""",
        "rust",
        ["pub struct P { x: i32 } (line 3)", "pub fn new(x: i32) -> Self", "fn main() (line 8)"],
    ),
    "a.js": (
        """\
import x from 'y';
export function foo(b) {
  return bar(b);
}
class Foo extends Bar {
  async run(a) {
    if (a) {
    }
  }
}
""",
        "javascript",
        ["export function foo(b) (line 2)", "class Foo extends Bar (line 5)", "async run(a) (line 6)"],
    ),
    "a.ts": (
        """\
import { a } from 'b';
export interface User { name: string }
export type Id = number;
export class Svc {
  async load(id: Id): Promise<User> {
    return x;
  }
}
""",
        "typescript",
        [
            "interface User",
            "type Id = number",
            "class Svc (line 4)",
            "async load(id: Id): Promise<User> (line 5)",
        ],
    ),
    "a.java": (
        """\
package a.b;
import java.util.List;
public class Foo {
  public List<String> names() {
    return helper();
  }
}
""",
        "java",
        ["public class Foo (line 3)", "public List<String> names() (line 4)"],
    ),
    "a.c": (
        """\
#include <stdio.h>
struct point { int x; };
static int add(int a) {
  return a;
}
""",
        "c",
        ["struct point", "static int add(int a) (line 3)"],
    ),
    "a.cpp": (
        """\
#include <vector>
namespace app {
class Foo {
  void run();
};
}
void app::Foo::run()
{
  std::vector<int> v;
}
""",
        "cpp",
        ["namespace app", "class Foo", "void app::Foo::run() (line 7)"],
    ),
    "a.rb": (
        """\
require 'x'
module A
  class B < C
    def run(x)
      puts x
    end
  end
end
""",
        "ruby",
        ["module A (line 2)", "class B < C (line 3)", "def run(x) (line 4)"],
    ),
    "a.php": (
        """\
<?php
namespace A;
class Foo {
  public function bar($x) {
    return baz($x);
  }
}
""",
        "php",
        ["class Foo (line 3)", "public function bar($x) (line 4)"],
    ),
    "a.sh": (
        """\
#!/bin/bash
set -e
foo() {
  echo hi
}
function bar {
  foo
}
""",
        "bash",
        ["foo() (line 3)", "function bar (line 6)"],
    ),
    "a.cs": (
        """\
using System;
namespace A {
  public class Foo {
    public int Run(int x) {
      return x;
    }
  }
}
""",
        "csharp",
        ["namespace A (line 2)", "public class Foo (line 3)", "public int Run(int x) (line 4)"],
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_code_tells_its_definitions_and_their_lines(name: str) -> None:
    source, kind, definitions = SOURCES[name]
    explored = explore(source.encode(), name)
    assert explored.kind == kind
    assert [part for part in definitions if part not in explored.summary] == []


@pytest.mark.parametrize("name", SOURCES)
def test_a_language_is_known_without_a_name(name: str) -> None:
    source, kind, _ = SOURCES[name]
    assert explore(source.encode()).kind == kind


@pytest.mark.parametrize(
    ("source", "name", "definition"),
    [
        (
            "package a\nclass Foo(val x: Int) {\n  fun run(): Int = x\n}\n",
            "a.kt",
            "fun run(): Int = x (line 3)",
        ),
        (
            "struct P { var x: Int }\nfunc go(a: Int) -> Int {\n  return a\n}\n",
            "a.swift",
            "func go(a: Int) -> Int (line 2)",
        ),
        ("defmodule A do\n  def run(x) do\n    x\n  end\nend\n", "a.ex", "def run(x) do (line 2)"),
    ],
)
def test_a_name_tells_languages_that_the_text_alone_does_not(source: str, name: str, definition: str) -> None:
    assert definition in explore(source.encode(), name).summary


def test_a_diff_tells_files_and_sizes() -> None:
    diff = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,3 @@\n-a\n+b\n+c\n d\n"
    explored = explore(diff.encode())
    assert explored.kind == "diff"
    assert "1 file, 2 lines added, 1 removed" in explored.summary
    assert "x.py +2 -1" in explored.summary


def log_lines() -> str:
    lines = []
    for i in range(1_000):
        level = "ERROR" if i % 100 == 7 else "WARN" if i % 10 == 3 else "INFO"
        lines.append(
            f"2024-05-01 12:{i // 60 % 60:02d}:{i % 60:02d},123 {level} worker-{i % 4}: request {i} took {i} ms"
        )
    lines.insert(500, "ValueError: bad value 17")
    lines.insert(900, "ValueError: bad value 99")
    return "\n".join(lines)


def test_a_log_tells_time_span_levels_and_distinct_errors() -> None:
    for name in ("app.log", ""):
        explored = explore(log_lines().encode(), name)
        assert explored.kind == "log"
        for part in (
            "Log: 1,002 lines",
            "Time: 2024-05-01 12:00:00,123 to 2024-05-01 12:16:39,123",
            "ERROR 10, WARN 100, INFO 890",
            "12, 2 distinct forms",
            "x10, first at line 8",
            "x2, first at line 501: ValueError: bad value 17",
        ):
            assert part in explored.summary


@pytest.mark.parametrize(
    "line",
    [
        '127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.0" 200 2326',
        "Oct 11 22:14:15 host sshd[1]: Accepted password",
        "2024-05-01T12:00:00.000Z level=info msg=started",
        "[INFO] 12:00:00 started",
        "ERROR:root:something broke",
    ],
)
def test_usual_log_formats_are_known(line: str) -> None:
    assert explore("\n".join([line] * 20).encode()).kind == "log"


def test_the_word_error_in_a_message_is_no_level() -> None:
    explored = explore("\n".join(["2024-05-01 12:00:00 INFO no error found"] * 10).encode())
    assert "INFO 10" in explored.summary
    assert "Errors" not in explored.summary


MARKDOWN = """\
# Guide

How to use it.

## Install

```sh
# not a heading
```

## Use

See [docs](https://x.org).

### Deep
"""


def test_markdown_tells_its_headings_outside_code() -> None:
    for name in ("README.md", ""):
        explored = explore(MARKDOWN.encode(), name)
        assert explored.kind == "markdown"
        for part in (
            "4 headings, 1 code block, 1 link",
            "Begins: How to use it.",
            "- Guide (line 1)",
            "  - Use (line 11)",
            "    - Deep (line 15)",
        ):
            assert part in explored.summary
        assert "not a heading" not in explored.summary


def test_html_tells_title_headings_and_text_without_scripts() -> None:
    page = (
        "<!DOCTYPE html><html><head><title>My &amp; page</title><script>var x = '<p>';</script></head><body>"
        "<h1 class='a'>Top</h1><p>Hello <b>you</b></p><h2>Sub</h2><a href='x'>l</a><img src='y'></body></html>"
    )
    explored = explore(page.encode())
    assert explored.kind == "html"
    for part in ("HTML page: My & page", "- Top", "  - Sub", "1 link, 1 image", "Hello you"):
        assert part in explored.summary
    assert "var x" not in explored.summary


def test_prose_tells_its_beginning_end_and_telling_lines() -> None:
    text = (
        "It was a dark night.\n"
        + "The ship sailed on over the ocean.\n" * 60
        + "Decision: we turn back.\nThe end came soon."
    )
    explored = explore(text.encode())
    assert explored.kind == "text"
    for part in (
        "63 lines",
        "It was a dark night",
        "The end came soon",
        "Decision: we turn back",
        "ship",
    ):
        assert part in explored.summary
