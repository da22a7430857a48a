"""Python file with its syntax tree, replacements and remaining work."""

import ast
import difflib
import re
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, order=True)
class Finding:
    """A remark about a line of the original file."""

    line: int
    text: str


class Script:
    """A file that is being migrated.

    Args:
        path: Path of the file.

    Raises:
        SyntaxError: It is not a Python 3 file, or its encoding differs from the declared one.
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
        #: Remaining work for the user.
        self.left: set[Finding] = set()
        #: Information for the user about code that runs unchanged.
        self.notes: set[Finding] = set()
        self._starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", self.text))]
        self._edits: dict[tuple[int, int], str] = {}
        # Insertions between characters; inserted lines follow insertions on the line before them.
        self._added: dict[int, list[str]] = {}
        self._added_lines: dict[int, list[str]] = {}
        self._once: set[tuple[ast.AST, str]] = set()

    def leave(self, node: ast.AST | None, text: str) -> None:
        """Report remaining work, at the line of a node or at the first line."""
        self.left.add(Finding(getattr(node, "lineno", 1), text))

    def note(self, node: ast.AST | None, text: str) -> None:
        """Report information for the user."""
        self.notes.add(Finding(getattr(node, "lineno", 1), text))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return start and end of the text of a node."""
        where: Any = node
        return self._offset(where.lineno, where.col_offset), self._offset(where.end_lineno, where.end_col_offset)

    def source(self, node: ast.AST) -> str:
        """Return the text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    def replace(self, node: ast.AST, text: str) -> None:
        """Replace the text of a node by ``text``."""
        self._edits[self.span(node)] = text

    def replace_in(self, node: ast.AST, pattern: str, text: str) -> None:
        """Replace the first match of a regular expression in the text of a node by ``text``."""
        start, end = self.span(node)
        match = re.compile(pattern).search(self.text, start, end)
        if match is not None:
            self._edits[match.span()] = text

    def replace_arguments(self, call: ast.Call, text: str) -> None:
        """Replace the arguments of a call and their parentheses by ``(text)``."""
        (_, start), (_, end) = self.span(call.func), self.span(call)
        self._edits[start, end] = f"({text})"

    def add_before(self, node: ast.AST, text: str) -> None:
        """Insert ``text`` before a node, whose text may be replaced in parts."""
        self._added.setdefault(self.span(node)[0], []).append(text)

    def add_after(self, node: ast.AST, text: str) -> None:
        """Insert ``text`` after a node, whose text may be replaced in parts."""
        self._added.setdefault(self.span(node)[1], []).append(text)

    def add_lines_after(self, node: ast.stmt, *lines: str) -> bool:
        """Insert lines after a statement with its indentation; return ``False`` if other code is on its line."""
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
        """Insert a line after a statement, or a text after another node, unless that was done before.

        Returns:
            ``False`` if other code is on the line of the statement.
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
        """Return the text with all replacements."""
        result, position = [], 0
        edits = [(span, text) for span, text in self._edits.items()]
        for added in (self._added, self._added_lines):
            edits += [((where, where), "".join(texts)) for where, texts in added.items()]
        for (start, end), text in sorted(edits, key=lambda edit: edit[0]):
            if start < position:
                continue  # inside of a piece that is replaced already; the next run handles it
            result += [self.text[position:start], text]
            position = end
        return "".join([*result, self.text[position:]])

    @property
    def diff(self) -> str:
        """Return a unified diff of the replacements; empty if there are none."""
        old, new = (text.splitlines(keepends=True) for text in (self.text, self.migrated))
        lines = difflib.unified_diff(old, new, str(self.path), str(self.path))
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

    def content(self) -> bytes:
        """Return the migrated file as bytes."""
        return self.migrated.encode(self._encoding)

    def _offset(self, line: int, column: int) -> int:
        """Return the position in the text; columns of syntax trees count UTF-8 bytes."""
        start = self._starts[line - 1]
        end = self._starts[line] if line < len(self._starts) else len(self.text)
        return start + len(self.text[start:end].encode()[:column].decode())
