"""Where the code reads a field of settings: found in the text of what a job imports."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[1]
HOUSES = ("adapters", "engine", "signals")


@dataclass(slots=True)
class ModuleText:
    """What a module imports, mentions and reads.

    - `mentions` are the names in it, `attributes` what stands behind a dot
    - `reads` are the pairs of an attribute and of the name before it, by the function that has them; empty
      for what is in no function of the module
    - `fields` are those of classes, with the names of their types
    - `inner` are the attributes that each method of a class reads of its own object
    """

    imports: set[str] = field(default_factory=set)
    mentions: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    reads: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    fields: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    inner: dict[tuple[str, str], set[str]] = field(default_factory=dict)


@functools.cache
def module_text(module: str) -> ModuleText:
    """A module's text; an empty one if there is no such module."""
    file, found = _file_of(module), ModuleText()
    for statement in ast.parse(file.read_text()).body if file else ():
        function = statement.name if isinstance(statement, ast.FunctionDef) else ""
        for node in ast.walk(statement):
            _take(found, node, found.reads.setdefault(function, set()))
    return found


@functools.cache
def _file_of(module: str) -> Path | None:
    path = ROOT / module.replace(".", "/")
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next(
        (file for file in files if file.is_file() and module.split(".", maxsplit=1)[0] in HOUSES), None
    )


def _take(found: ModuleText, node: ast.AST, reads: set[tuple[str, str]]) -> None:
    match node:
        case ast.Import(names=aliases):
            found.imports |= {alias.name for alias in aliases}
        case ast.ImportFrom(module=str(module), names=aliases):
            found.imports |= {module, *(f"{module}.{alias.name}" for alias in aliases)}
        case ast.Constant(value=str(text)) if text.split(".")[0] in HOUSES:
            found.imports.add(text)  # what is imported by its name
        case ast.Name(id=name):
            found.mentions.add(name)
        case ast.Attribute(value=value, attr=attribute):
            found.attributes.add(attribute)
            reads.add((_name_of(value), attribute))
        case ast.MatchClass(cls=ast.Name(id=name), kwd_attrs=attributes):
            found.mentions.add(name)
            reads |= {("", attribute) for attribute in attributes}
        case ast.ClassDef(name=name, body=body):
            for member in body:
                _take_member(found, name, member)


def _take_member(found: ModuleText, owner: str, member: ast.stmt) -> None:
    match member:
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
            types = (node.id for node in ast.walk(annotation) if isinstance(node, ast.Name))
            found.fields[owner, name] = set(types)
        case ast.FunctionDef(name=name):
            inner = (node for node in ast.walk(member) if isinstance(node, ast.Attribute))
            found.inner[owner, name] = {node.attr for node in inner if _name_of(node.value) == "self"}


def _name_of(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


@dataclass(frozen=True)
class JobModules:
    """The modules that a job may run: `roots`, and what these import, but none of the packages `without`."""

    roots: frozenset[str]
    without: frozenset[str] = frozenset()

    @functools.cached_property
    def all(self) -> frozenset[str]:
        """Their names."""
        found, left = set[str](), list(self.roots)
        while left:
            module = left.pop()
            barred = any(f"{module}.".startswith(f"{package}.") for package in self.without)
            if module not in found and not barred and _file_of(module):
                found.add(module)
                left += module_text(module).imports
        return frozenset(found)

    @functools.cached_property
    def _reads(self) -> dict[str, list[tuple[str, str, str]]]:
        """By attribute: the modules that read it, the functions that do, and the name before it."""
        found: dict[str, list[tuple[str, str, str]]] = {}
        for module in self.all:
            for function, reads in module_text(module).reads.items():
                for value, attribute in reads if not _only_makes(module) else ():
                    found.setdefault(attribute, []).append((module, function, value))
        return found

    @functools.cached_property
    def _holders(self) -> dict[str, set[tuple[str, str]]]:
        """By the name of a class: the classes with an object of it, and the fields that have it."""
        found: dict[str, set[tuple[str, str]]] = {}
        for module in self.all:
            for holder, types in module_text(module).fields.items():
                for kind in types:
                    found.setdefault(kind, set()).add(holder)
        return found

    def readers(self, owner: type, name: str) -> set[str]:
        """Those that read a field of a class, or a method of the class that reads the field.

        A module that mentions the class reads the field by any `.field`. One that mentions another class with
        an object of this class in a field reads it as `.job.field`. What a function reads counts only if some
        module mentions the function.
        """
        found = set()
        for attribute in _asking(owner, name):
            for module, function, value in self._reads.get(attribute, ()):
                mentions = module_text(module).mentions
                holders = {kind for kind, field in self._holders.get(owner.__name__, ()) if field == value}
                known = owner.__name__ in mentions or holders & mentions
                if known and module != owner.__module__ and self._mentioned(module, function):
                    found.add(module)
        return found

    def _mentioned(self, module: str, function: str) -> bool:
        if module in self.roots or not function or function in module_text(module).mentions:
            return True
        texts = (module_text(other) for other in self.all)
        return any(
            f"{module}.{function}" in text.imports or (module in text.imports and function in text.attributes)
            for text in texts
        )


def modules_in(folder: str) -> Iterable[str]:
    """The modules of a folder."""
    files = (ROOT / folder).rglob("*.py")
    return {".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files}


def _only_makes(module: str) -> bool:
    """Whether a module makes settings of properties, or declares these."""
    return module.startswith("engine.config.") or module.endswith("properties")


def _asking(owner: type, name: str) -> set[str]:
    """The field, and the methods of its class that read it, also by other methods."""
    methods = {
        method: reads
        for (kind, method), reads in module_text(owner.__module__).inner.items()
        if kind == owner.__name__
    }
    found = {name}
    while more := {method for method, reads in methods.items() if reads & found} - found:
        found |= more
    return found
