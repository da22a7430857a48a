"""Construction of envs: ids that Gymnasium no longer supports, and render modes.

``ding.envs.make_gym_env`` replaces ``gym.make`` if the id is known only at run time, if a package like ale_py registers
it, if its successor needs arguments (``Ant-v3``), or if frames are drawn from an env created without a render mode.
"""

import ast
import importlib.util
import re

import gymnasium

from ding.entry.migrate.module import Module, calls
from ding.entry.migrate.origins import MAKERS
from ding.entry.migrate.script import Script
from ding.envs.env.old_ids import spec_or_successor

_ID = re.compile(r"([\w-]+/)?[\w-]+-v\d+")
# Parts of ids for which make_gym_env finds a package.
_REGISTERED_LATE = re.compile(r"^ALE/|NoFrameskip|^MiniGrid-|^(Moving|Sliding)-")


def migrate_making(script: Script, module: Module) -> None:
    """Replace and report calls of ``gym.make``, render modes, and comparisons with ids."""
    makes = [call for call in calls(script.tree) if module.full_name(call.func) in MAKERS]
    changed = [call for call in makes if _make(script, module, call) and _import(script, module, call)]
    for call in changed:
        script.replace(call.func, "make_gym_env")
        for keyword in call.keywords:
            if keyword.arg == "id":
                script.replace_in(keyword, r"\bid\b", "env_id")
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Constant) and node.value == "single_rgb_array":
            script.replace(node, repr("rgb_array"))
        elif isinstance(node, ast.Compare):
            _compare(script, node)
        elif isinstance(node, ast.Call):
            _record(script, module, node)


def _make(script: Script, module: Module, call: ast.Call) -> bool:
    """Handle the id in a call of ``gym.make``; return whether ``make_gym_env`` must replace the call."""
    given = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "id")]
    if not given or isinstance(given[0], ast.Starred):
        return False
    env_id = given[0]
    if not isinstance(env_id, ast.Constant):
        return True
    name = str(env_id.value)
    old = module.full_name(call.func).startswith("gym.")
    if old and _REGISTERED_LATE.search(name):
        return True
    # Without a version, Gymnasium also uses the newest.
    if _ID.fullmatch(name) is not None:
        try:
            spec = spec_or_successor(name)
        except gymnasium.error.Error as reason:
            if old:
                script.leave(env_id, f"{name}: {reason}")
            return False
        if spec.id != name and spec.kwargs != gymnasium.spec(spec.id).kwargs:
            return True  # make_gym_env passes the arguments that make the successor like the old one
        if spec.id != name:
            quote = script.source(env_id)[-1]
            script.replace(env_id, f"{quote}{spec.id}{quote}")
    return old and _is_drawn(module, call)


def _is_drawn(module: Module, call: ast.Call) -> bool:
    """Return whether an env is created without a render mode but frames are drawn, in the same class or at module
    level.
    """
    if any(keyword.arg in ("render_mode", None) for keyword in call.keywords):
        return False
    cls = module.class_of(call)
    for other in calls(cls or module.tree):
        records = module.full_name(other.func).endswith("wrappers.RecordVideo")
        draws = isinstance(other.func, ast.Attribute) and other.func.attr == "render"
        if (records or draws) and module.class_of(other) is cls:
            return True
    return False


def _import(script: Script, module: Module, call: ast.Call) -> bool:
    """Import ``make_gym_env`` in the scope of a call; return ``False``, and report it, if that is not possible."""
    if "make_gym_env" in module.names:
        return True
    for node in script.tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "ding.envs" and node.names[0].name != "*":
            return script.add_once(node.names[-1], ", make_gym_env")
    name = ast.unparse(call.func).partition(".")[0]
    for statement in module.imports[name]:
        seen = set(module.functions_of(statement)) <= set(module.functions_of(call))
        if seen and script.add_once(statement, "from ding.envs import make_gym_env"):
            return True
    script.leave(call, "ding.envs.make_gym_env takes the place of gym.make here; it could not be imported")
    return False


def _record(script: Script, module: Module, call: ast.Call) -> None:
    """Report the requirements of a video recorder."""
    records = module.full_name(call.func) == "gym.wrappers.RecordVideo"
    if records and importlib.util.find_spec("moviepy") is None:
        script.note(call, "RecordVideo of gymnasium needs the package moviepy; `pip install` it")


def _compare(script: Script, node: ast.Compare) -> None:
    """Report a comparison with an id that Gymnasium no longer supports."""
    texts = [each for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    for text in texts:
        name = str(text.value)
        try:
            newest = spec_or_successor(name).id if _ID.fullmatch(name) else name
        except gymnasium.error.Error:
            continue
        if newest == name:
            continue
        if ".spec" in ast.unparse(node):
            script.leave(text, f"{name}: gymnasium builds {newest} in its place, and the spec says so")
        else:
            script.note(text, f"{name}: gymnasium builds {newest} in its place; configs may go on naming {name}")
