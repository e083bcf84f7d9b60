"""Compressed blocks: smaller, unchanged, and harmless whatever is in them."""

from typing import Any

import numpy as np
import pytest

from tests.transport.ends import Actor, Learner, Plain, Secure, running
from transport import ArraySpec, Layout, Refused, make_identity, messages
from transport.compression import Compressed, Zstd
from transport.layout import Misfit

NEST = {
    "pictures": ArraySpec(np.dtype(np.uint8), (2, None, 84, 84)),
    "rewards": ArraySpec(np.dtype(np.float32), (2, None)),
}
MOST = 8
BLOCKS = Compressed(NEST, Zstd(), MOST)


def block(count: int, noise: bool = False) -> dict[str, np.ndarray]:
    random = np.random.default_rng(count)
    pictures = np.zeros((2, count, 84, 84), np.uint8)
    pictures[:, :, 40:50, 30:60] = 200
    if noise:
        pictures = random.integers(0, 256, pictures.shape, np.uint8)
    return {"pictures": pictures, "rewards": random.normal(size=(2, count)).astype(np.float32)}


@pytest.mark.parametrize("count", [1, MOST])
def test_pictures_shrink_and_come_back_as_they_were(count):
    packed = BLOCKS.pack(block(count), count)
    assert packed.nbytes < BLOCKS.size(count) / 20
    found = BLOCKS.unpack(packed, count)
    for name, array in block(count).items():
        assert (found[name] == array).all() and found[name].flags.writeable


def test_what_does_not_shrink_is_sent_as_it_is():
    sent = block(3, noise=True)
    packed = BLOCKS.pack(sent, 3)
    assert packed.nbytes == BLOCKS.size(3)
    assert (BLOCKS.unpack(packed, 3)["pictures"] == sent["pictures"]).all()


@pytest.mark.parametrize(
    "squeezed",
    [
        b"",
        b"no frame at all",
        Zstd().compress(np.zeros(BLOCKS.size(2) - 1, np.uint8)),
        Zstd().compress(np.zeros(BLOCKS.size(2) + 1, np.uint8)),
        Zstd().compress(np.zeros(1 << 28, np.uint8)),  # 256 MB in some kilobytes
        Zstd().compress(np.zeros(BLOCKS.size(2), np.uint8))[:-3],
    ],
)
def test_bytes_of_another_size_are_refused(squeezed):
    with pytest.raises(Misfit):
        BLOCKS.unpack(np.frombuffer(squeezed, np.uint8), 2)


def test_no_more_unrolls_are_unpacked_than_allowed():
    many = 4_000_000_000
    packed = np.frombuffer(Zstd().compress(np.zeros(1000, np.uint8)), np.uint8)
    with pytest.raises(Misfit, match="lower --envs_per_actor"):
        BLOCKS.unpack(packed, many)


@pytest.mark.parametrize("secure", [False, True])
def test_blocks_go_compressed_over_both_transports(secure, tmp_path, monkeypatch):
    monkeypatch.setattr(Learner, "carrier", Secure(tmp_path) if secure else Plain())
    learner = Learner(blocks=BLOCKS)
    actor = Actor(learner, "actor")
    sizes: list[int] = []
    connect = actor.link._connect

    def watched() -> Any:
        made: Any = connect()
        put = made.put

        def counted(header: np.ndarray, payload: np.ndarray) -> int:
            sizes.append(payload.nbytes)
            return int(put(header, payload))

        made.put = counted
        return made

    actor.link._connect = watched
    sent = block(4)
    with running(learner, actor):
        learner.receiver.publish([np.zeros(3, np.float32)], 0)
        for _ in range(3):
            assert actor.link.announce(20)
            actor.link.put(sent, 4)
            taken = learner.receiver.take(20)
            assert taken is not None and (taken["pictures"] == sent["pictures"]).all()
    assert max(sizes) < BLOCKS.size(4) / 20


def test_the_learner_reports_a_block_that_it_cannot_read():
    learner = Learner(blocks=BLOCKS)
    print_of = messages.fingerprint(make_identity(learner.properties, BLOCKS.digest()))
    bad, good = np.zeros(100, np.uint8), BLOCKS.pack(block(1), 1)
    with running(learner):
        connection = learner.connection()
        for number, (unrolls, payload) in enumerate([(2, bad), (MOST + 1, good), (1, good)], 1):
            header = messages.Header(print_of, b"a" * 16, number, unrolls, 0.0)
            connection.put(header.pack(), payload)
        assert learner.receiver.take(20) is not None
        refused = [line for line in learner.printed if "a block was refused: a compressed" in line]
        assert len(refused) == 1
        connection.close()


def test_an_actor_whose_blocks_are_larger_than_what_is_unpacked_is_refused():
    learner = Learner(blocks=Compressed(NEST, Zstd(), most=2))
    actor = Actor(learner, "actor")
    with running(learner, actor):
        learner.receiver.publish([np.zeros(3, np.float32)], 0)
        assert actor.link.announce(20)
        words = "refuses this actor: its blocks have 3 unrolls, and 2 are allowed"
        with pytest.raises(Refused, match=f"{words}.*lower --envs_per_actor") as refused:
            actor.link.put(block(3), 3)
        assert "--replay_steps" not in str(refused.value)
        actor.link.put(block(2), 2)
        assert learner.receiver.take(20) is not None


def test_layouts_that_are_packed_otherwise_are_different():
    assert BLOCKS.digest() != Layout(NEST).digest()
    identities = [make_identity({}, one.digest()) for one in (BLOCKS, Layout(NEST))]
    assert messages.fingerprint(identities[0]) != messages.fingerprint(identities[1])
