"""One Python file: its syntax tree, the replacements in it, and what is left to do."""

import ast
import difflib
import re
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, order=True)
class Finding:
    """Something about a line of the file as it was."""

    line: int
    text: str


class Script:
    """A file that is being migrated.

    Args:
        path: the file.

    Raises:
        SyntaxError: it is no Python 3 file, or its encoding is not the one that it declares.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            self._encoding, _ = tokenize.detect_encoding(file.readline)
        try:
            self.text = path.read_bytes().decode(self._encoding)
        except UnicodeDecodeError as error:
            raise SyntaxError(f"not a text in {self._encoding}: {error}") from error
        self.tree = ast.parse(self.text)
        #: What the user has to see to.
        self.left: set[Finding] = set()
        #: What the user should know, although it runs as it is.
        self.notes: set[Finding] = set()
        self._starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", self.text))]
        self._edits: dict[tuple[int, int], str] = {}
        # What is written between characters; lines come after what is written on the line before them.
        self._added: dict[int, list[str]] = {}
        self._added_lines: dict[int, list[str]] = {}
        self._once: set[tuple[ast.AST, str]] = set()

    def leave(self, node: ast.AST | None, text: str) -> None:
        """Report what the user has to see to, at the line of a node or at the first one."""
        self.left.add(Finding(getattr(node, "lineno", 1), text))

    def note(self, node: ast.AST | None, text: str) -> None:
        """Report what the user should know."""
        self.notes.add(Finding(getattr(node, "lineno", 1), text))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where the text of a node begins and ends."""
        where: Any = node
        return self._offset(where.lineno, where.col_offset), self._offset(where.end_lineno, where.end_col_offset)

    def source(self, node: ast.AST) -> str:
        """The text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    def replace(self, node: ast.AST, text: str) -> None:
        """Write ``text`` in place of a node."""
        self._edits[self.span(node)] = text

    def replace_in(self, node: ast.AST, pattern: str, text: str) -> None:
        """Write ``text`` in place of the first match of a regular expression in the text of a node."""
        start, end = self.span(node)
        match = re.compile(pattern).search(self.text, start, end)
        if match is not None:
            self._edits[match.span()] = text

    def replace_arguments(self, call: ast.Call, text: str) -> None:
        """Write ``(text)`` in place of the arguments of a call and their parentheses."""
        (_, start), (_, end) = self.span(call.func), self.span(call)
        self._edits[start, end] = f"({text})"

    def add_before(self, node: ast.AST, text: str) -> None:
        """Write ``text`` before a node, in which other things may be replaced."""
        self._added.setdefault(self.span(node)[0], []).append(text)

    def add_after(self, node: ast.AST, text: str) -> None:
        """Write ``text`` after a node, in which other things may be replaced."""
        self._added.setdefault(self.span(node)[1], []).append(text)

    def add_lines_after(self, node: ast.stmt, *lines: str) -> bool:
        """Write lines after a statement, as far to the right; ``False`` where other code is on its line."""
        start, end = self.span(node)
        line = re.compile(r"[ \t]*(#[^\r\n]*)?(\r\n|\r|\n|$)").match(self.text, end)
        before = self.text[self._starts[node.lineno - 1] : start]
        if line is None or before.strip():
            return False
        newline = line.group(2) or "\n"
        where = line.end() - len(line.group(2))
        self._added_lines.setdefault(where, []).extend(f"{newline}{before}{text}" for text in lines)
        return True

    def add_once(self, node: ast.AST, text: str) -> bool:
        """Write a line after a statement, or a text after another node, unless that was done before.

        Returns:
            ``False`` where other code is on the line of the statement.
        """
        if (node, text) not in self._once:
            if not isinstance(node, ast.stmt):
                self.add_after(node, text)
            elif not self.add_lines_after(node, text):
                return False
            self._once.add((node, text))
        return True

    @property
    def migrated(self) -> str:
        """The text with everything replaced."""
        result, position = [], 0
        edits = [(span, text) for span, text in self._edits.items()]
        for added in (self._added, self._added_lines):
            edits += [((where, where), "".join(texts)) for where, texts in added.items()]
        for (start, end), text in sorted(edits, key=lambda edit: edit[0]):
            if start < position:
                continue  # inside of a piece that is replaced already; the next run sees to it
            result += [self.text[position:start], text]
            position = end
        return "".join([*result, self.text[position:]])

    @property
    def diff(self) -> str:
        """A unified diff of what is replaced; empty where nothing is."""
        old, new = (text.splitlines(keepends=True) for text in (self.text, self.migrated))
        lines = difflib.unified_diff(old, new, str(self.path), str(self.path))
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

    def content(self) -> bytes:
        """The migrated file."""
        return self.migrated.encode(self._encoding)

    def _offset(self, line: int, column: int) -> int:
        """Position in the text; columns of syntax trees count bytes of UTF-8."""
        start = self._starts[line - 1]
        end = self._starts[line] if line < len(self._starts) else len(self.text)
        return start + len(self.text[start:end].encode()[:column].decode())
