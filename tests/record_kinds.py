"""The table of record kinds (``src/hardpan/record_kinds.json``) and their JSON Schema (``docs/schema.json``): run
this file to write both anew.

``hardpan.files.from_json`` reads a record before its module was imported; the table says which module to import.
"""

import ast
import json
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "hardpan"
TABLE = PACKAGE / "record_kinds.json"
SCHEMA = PACKAGE.parent.parent / "docs" / "schema.json"


def kinds() -> dict[str, str]:
    """The module of every class that is decorated with ``record``, by the kind in its JSON."""
    modules = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(("hardpan", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            for decorator in getattr(node, "decorator_list", []):
                call = decorator if isinstance(decorator, ast.Call) else None
                name = ast.unparse(call.func if call else decorator)
                if isinstance(node, ast.ClassDef) and name in ("record", "files.record"):
                    renamed = [word.value.value for word in (call.keywords if call else ()) if word.arg == "kind"]
                    modules[renamed[0] if renamed else node.name] = module
    return dict(sorted(modules.items()))


if __name__ == "__main__":
    TABLE.write_text(json.dumps(kinds(), indent=1) + "\n", encoding="utf-8")
    from hardpan.files.schemas import all_schemas  # reads the table

    SCHEMA.write_text(json.dumps(all_schemas(), separators=(",", ":"), sort_keys=True) + "\n", encoding="utf-8")
