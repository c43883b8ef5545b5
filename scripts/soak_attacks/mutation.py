"""Files and words with damage done to them."""

from __future__ import annotations

from random import Random

HURTFUL = (
    *(0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000),
    *(0xFFFF_FFFF, 1 << 32, 1 << 48, (1 << 60) + 4, (1 << 63) - 1, 1 << 63, (1 << 64) - 8),
    (1 << 64) - 1,
)
"""Values that lengths, counts and offsets break on."""


def mutated(random: Random, data: bytes, early: int = 0) -> bytes:
    """The bytes with a few changes. With ``early``, half of them within the first so many bytes."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8, 30))):
        if not changed:
            break
        end = min(early, len(changed)) if early and random.random() < 0.5 else len(changed)
        _damage(random, changed, random.randrange(end))
    if random.random() < 0.15:
        del changed[random.randrange(len(changed) + 1) :]
    return bytes(changed)


def _damage(random: Random, data: bytearray, at: int) -> None:
    kind = random.randrange(7)
    if kind == 0:
        data[at] ^= 1 << random.randrange(8)
    elif kind == 1:
        data[at] = random.randrange(256)
    elif kind in (2, 3):
        width = random.choice((1, 2, 4, 8))
        value = random.choice(HURTFUL) & (1 << 8 * width) - 1
        at -= at % width if random.random() < 0.8 else 0
        order = "big" if random.random() < 0.3 else "little"
        data[at : at + width] = value.to_bytes(width, order)
    elif kind == 4:
        del data[at : at + random.choice((1, 4, 8, 64, 1000))]
    elif kind == 5:
        data[at:at] = random.randbytes(random.choice((1, 4, 8, 64)))
    else:
        piece = data[at : at + random.choice((4, 8, 64, 500))]
        place = random.randrange(len(data) + 1)
        data[place:place] = piece


_TOKENS = (
    *("", " ", "0", "-1", "1e999", "NaN", "null", "true", "[]", "{}", '"', "'", "=", "\\", "\0"),
    *("9" * 400, "0x", "[" * 200, "\ud7ff", "#", ",", "1.5", '"' * 3, "\r", "\x1b[2J", "[[a]]"),
)


def mutated_text(random: Random, text: str) -> bytes:
    """The text with a few changes: of bytes, of words, of lines."""
    lines = text.splitlines(keepends=True)
    for _ in range(random.randrange(1, 5)):
        at = random.randrange(len(lines))
        kind = random.randrange(5)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(random.randrange(len(lines) + 1), lines[at])
        else:
            words = lines[at].split(" ")
            words[random.randrange(len(words))] = random.choice(_TOKENS)
            lines[at] = " ".join(words)
        if not lines:
            lines = ["\n"]
    data = "".join(lines).encode()
    return mutated(random, data) if random.random() < 0.4 else data
