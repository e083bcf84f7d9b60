"""The settings that a spec gives, and those that it lets a search choose."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from algorithms import registry
from lab.specs import search_space
from lab.specs.errors import refuse, refuse_key
from lab.specs.meta import check_value, mapping
from lab.specs.search_space import Searched
from trainer.machine.launching import script_name
from trainer.settings import checks, config, files, presets
from user_error import UserError, closest

# Short keys beside ``settings``, and the flags that they stand for.
SHORT = {"level": "level_name", "algorithm": "algorithm", "agent": "agent_name"}
SEARCHABLE = ("level", "algorithm", "agent", "settings")
# The lab gives these to each session itself, and why.
OWN = {
    "logdir": "each session has a folder of its own",
    "seed": "seeds count up from meta.seed",
    "mode": "sessions train",
    "job_name": "a session is one process",
    "task": "a session is one process",
    "watch": f"sessions run without a window; {script_name('bin/lab')} enjoy plays with the best",
    "remotes": "sessions side by side would play on the same desktops; each starts its own",
    **dict.fromkeys(
        ("agents", "product", "bodies"),
        f"a session trains one agent; train several with {script_name('bin/train')}",
    ),
}
# Small networks report once a second, so that short sessions have curves, too.
USUAL = {"report_every_s": 1.0, "keep_checkpoints": 1}


def given_settings(content: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The settings that a spec gives: of its preset, its short keys, and its own."""
    if "level" in content and "levels" in content:
        refuse(f"{where}.levels", content["levels"], "either level or levels")
    own = mapping(content.get("settings"), f"{where}.settings")
    for name in own:
        if name in OWN and not content.get("frozen"):
            refuse(f"{where}.settings.{name}", own[name], f"nothing here: {OWN[name]}")
        short = {flag: key for key, flag in SHORT.items()}.get(name)
        if short in content:
            refuse(f"{where}.settings.{name}", own[name], f"it once; {where}.{short} says it, too")
    base = _preset(content, where)
    named = {flag: content[key] for key, flag in SHORT.items() if key in content}
    if "levels" in content:
        listed = content["levels"]
        is_list = isinstance(listed, list) and listed
        if not is_list or not all(isinstance(one, str) for one in listed):
            refuse(f"{where}.levels", listed, "a list of levels")
        named["level_name"] = ",".join(listed)
    given = USUAL | base | named | own
    known = _known(str(given.get("algorithm", registry.DEFAULT)), f"{where}.algorithm")
    checked = {}
    for name, value in given.items():
        key = next((key for key, flag in SHORT.items() if flag == name and key in content), None)
        place = f"{where}.{key or f'settings.{name}'}"
        if name not in known:
            refuse(place, value, f"the name of a setting. {closest(name, known)}")
        checked[name] = check_value(known[name], value, place)
    if "algorithm" in checked:
        checked["algorithm"] = registry.name_of(checked["algorithm"])
    if content.get("frozen"):  # earlier versions passed over them
        checked = {name: one for name, one in checked.items() if name not in checks.FOR_TRAINED}
    if "level_name" not in checked:
        raise UserError(f"{where}.level: found nothing; expected the level to play.")
    return checked


def _preset(content: Mapping[str, Any], where: str) -> dict[str, Any]:
    if "preset" not in content:
        return {}
    name = str(content["preset"])
    if name not in presets.names():
        refuse(f"{where}.preset", name, f"a preset. {closest(name, presets.names())}")
    found = files.load(presets.path_of(name), f"--preset={name}")
    return {key: value for key, value in found.items() if key != files.DESCRIPTION}


def _known(algorithm: str, where: str) -> dict[str, dataclasses.Field]:
    try:
        return {field.name: field for field in config.fields(algorithm)}
    except UserError as error:
        if ":" in algorithm:  # one of the user's own
            raise UserError(f"{where}: {error}") from None
        refuse(where, algorithm, f"an algorithm. {closest(algorithm, registry.KNOWN)}")


def given_search(
    content: Mapping[str, Any], settings: dict[str, Any], where: str
) -> list[Searched]:
    """The settings that a spec searches, which may be those of any algorithm it searches, too."""
    where = f"{where}.search"
    given = mapping(content.get("search"), where)
    flat: list[tuple[str, str, Any]] = []  # path of keys, KEY__KIND, values
    for key, value in given.items():
        if key == "settings":
            flat += [
                (f"{where}.settings.{name}", name, one)
                for name, one in mapping(value, f"{where}.settings").items()
            ]
        elif key.partition("__")[0] in SEARCHABLE:
            flat.append((f"{where}.{key}", key, value))
        else:
            refuse_key(f"{where}.{key}", SEARCHABLE)
    algorithms = {settings.get("algorithm", registry.DEFAULT)}
    algorithms |= {
        str(one)
        for _, key, values in flat
        if key.startswith("algorithm") and isinstance(values, list)
        for one in values
    }
    known: dict[str, dataclasses.Field] = {}
    for algorithm in algorithms:
        known |= _known(str(algorithm), f"{where}.algorithm")
    found = [_one(path, key, value, known) for path, key, value in flat]
    for one in found:
        if [other.name for other in found].count(one.name) > 1:
            refuse(f"{where}.settings.{one.key}", list(one.values), f"{one.name} once")
    return found


def _one(path: str, key: str, value: Any, known: Mapping[str, dataclasses.Field]) -> Searched:
    name, _, kind = key.partition("__")
    name = SHORT.get(name, name)
    if name in OWN:
        refuse(path, value, f"nothing here: {OWN[name]}")
    if name not in known:
        refuse(path, value, f"the name of a setting before __. {closest(name, known)}")
    return search_space.read(name, kind or search_space.GRID, value, known[name], path)
