"""Snapshots that were forged: restored by command and by Python, and run on from there."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from attack import AttackError
from command import call
from mutation import HURTFUL, mutated

from spe_unicorn import Machine, Sampling, SnapshotError, read_snapshot, write_snapshot, zstd
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.session.runs import MachineEndedError

FORGED = 12
STEPS = 30_000
PROGRAMS = (
    *("mix", "spe_irq_el1", "virtio_blk", "virtio_console", "priv_smp", "pmu_overflow"),
    *("priv_stage2", "exceptions", "uart_echo", "spe_el2_owner", "priv_timer"),
)
_MODEL, _SAMPLED = {"model": "cache"}, {"sampling": Sampling(97)}


def attack(random: Random, folder: Path) -> int:
    """Forge some snapshots of one machine; nothing outside of its folder is another afterwards."""
    options = _options(random, folder)
    good, secret = folder / "good.snap", folder / "secret"
    secret.write_bytes(b"secret")
    with Machine(**options) as machine:
        machine.run(operations=random.choice((1, 1000, 50_000)))
        write_snapshot(machine.save(), good)
    for number in range(FORGED):
        file = folder / f"{number}.snap"
        file.write_bytes(_forged(random, good.read_bytes()))
        _restored(options, file)
    _by_command(random, options, good, folder)
    if secret.read_bytes() != b"secret" or sorted(p.name for p in folder.iterdir()) != sorted(
        {"good.snap", "secret", "disk", "share", "calls", *(f"{n}.snap" for n in range(FORGED))}
    ):
        raise AttackError("files outside the machine's folders have changed")
    return FORGED


def _options(random: Random, folder: Path) -> dict[str, Any]:
    (folder / "disk").write_bytes(random.randbytes(8192))
    for name in ("share", "calls"):
        (folder / name).mkdir()
        (folder / name / "file").write_bytes(b"in it")
    more = random.choice(({}, {}, _MODEL, _SAMPLED, {**_MODEL, **_SAMPLED}))
    return {
        "firmware": shipped_firmware(random.choice(PROGRAMS)),
        "smp": random.choice((1, 1, 2, 4)),
        "ram": 16 << 20,
        "drive": (str(folder / "disk"),),
        "share": (str(folder / "share"),),
        "semihosting_dir": str(folder / "calls"),
        "entropy": True,
        "virtio_console": True,
        **more,
    }


def _restored(options: dict[str, Any], file: Path) -> None:
    """Restore it into a machine of these options, and run on: a refusal is a SnapshotError."""
    with Machine(**options) as machine:
        try:
            machine.restore(read_snapshot(file))
        except SnapshotError as error:
            if "\n" in str(error):
                raise AttackError(f"more than a line: {error}") from None
            return
        with suppress(MachineEndedError):
            machine.run(operations=STEPS, timeout=20)


def _by_command(random: Random, options: dict[str, Any], good: Path, folder: Path) -> None:
    """A file that names others than the command line is refused, by a sentence."""
    file = folder / "0.snap"
    whole = _Parts(good.read_bytes())
    name = random.choice(("semihosting_dir", "share", "drive", "pflash", "load", "bios"))
    value = str(folder / "secret")
    whole.header["options"][name] = value if name in ("semihosting_dir", "bios") else [value]
    file.write_bytes(whole.packed())
    result = call("run", "-q", "--restore", file, "--max-insns", "100", options["firmware"])
    if result.exit_code != 2 or "secret" not in result.stderr:
        raise AttackError(f"--restore of {name}: {result.exit_code}, {result.stderr}")


class _Parts:
    """What a file is made of."""

    def __init__(self, data: bytes) -> None:
        self.line, rest = data.split(b"\n", 1)
        length = int.from_bytes(rest[:8], "little")
        self.header = json.loads(rest[8 : 8 + length])
        at = 8 + length
        self.sections: dict[str, list[bytes]] = {}
        for name, lengths in self.header["sections"].items():
            self.sections[name] = []
            for size in lengths:
                self.sections[name].append(rest[at : at + size])
                at += size

    def packed(self) -> bytes:
        """The file, with a digest that is right."""
        found = self.sections.items()
        self.header["sections"] = {name: [len(piece) for piece in all_] for name, all_ in found}
        header = json.dumps(self.header).encode()
        pieces = [piece for all_ in self.sections.values() for piece in all_]
        body = self.line + b"\n" + len(header).to_bytes(8, "little") + header + b"".join(pieces)
        return body + hashlib.blake2b(body, digest_size=32).digest()


def _forged(random: Random, data: bytes) -> bytes:
    parts = _Parts(data)
    kind = random.random()
    if kind < 0.1:
        body = mutated(random, data[:-32], 2000)
        return body + hashlib.blake2b(body, digest_size=32).digest()
    if kind < 0.2:
        _hurt(random, parts.header)
    elif kind < 0.3:
        name = random.choice(("addresses", "gone", "pages"))
        for n, piece in enumerate(parts.sections[name]):
            raw = mutated(random, zstd.decompress(piece))
            parts.sections[name][n] = zstd.compress(raw, 3)
    else:
        raw = zstd.decompress(parts.sections["states"][0])
        states = json.loads(raw)
        for _ in range(random.choice((1, 1, 2, 5))):
            _hurt(random, states)
        text = json.dumps(states).encode()
        parts.sections["states"] = [zstd.compress(text, 3)]
    return parts.packed()


def _hurt(random: Random, root: Any) -> None:
    """Change one value of some JSON."""
    places = list(_places(root))
    by_way: dict[str, list[tuple[Any, Any]]] = {}
    for way, holder, key in places:
        by_way.setdefault(way, []).append((holder, key))
    holder, key = random.choice(by_way[random.choice(sorted(by_way))])
    holder[key] = _other(random, holder[key])


def _places(root: Any, way: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Each value within: the names that lead to it, and where it is."""
    keys = root.keys() if isinstance(root, dict) else range(len(root))
    for key in keys:
        name = f"{way}.{key}" if isinstance(key, str) else way
        yield name, root, key
        if isinstance(root[key], (dict, list)):
            yield from _places(root[key], name)


def _other(random: Random, value: Any) -> Any:
    if isinstance(value, bool):
        return random.choice((not value, not value, 2, None))
    if isinstance(value, int):
        near = value + random.choice((-1, 1, 4, 64))
        far = random.choice(HURTFUL)
        return random.choice((near, far, -far, far << 64, random.getrandbits(64), 1.5, None))
    if isinstance(value, str):
        return _other_text(random, value)
    if isinstance(value, list):
        return random.choice(
            (value[:-1], value * 2, [], value[::-1], [0], [value], value + value[:1])
        )
    if isinstance(value, dict):
        return random.choice(({}, None, dict(list(value.items())[1:]), [*value.items()]))
    return random.choice((0, 1, "", [], 1 << 40, -1, [0, 0]))


def _other_text(random: Random, value: str) -> Any:
    try:
        data = b64decode(value, validate=True)
    except ValueError:
        data = b""
    if data and random.random() < 0.8:
        return b64encode(mutated(random, data)).decode()
    if random.random() < 0.2:
        return random.choice((None, 7, []))
    texts = ("", "..", "/etc/passwd", "../x", "Li4=", "L2V0Yw==", "a" * 5000, "<i4", "\0", "0" * 40)
    return random.choice(texts)
