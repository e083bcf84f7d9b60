"""Where a robot arm is, seen in a picture.

  python -m sandbox.arm capture                        pictures with labels, into data/arm
  python -m sandbox.arm train                          a network that predicts camera and joints
  python -m sandbox.arm evaluate                       its errors beside a mean predictor
  python -m sandbox.arm predict PICTURE.png            the pose in one picture
  python -m sandbox.arm control                        move the simulated arm by keys
  python -m sandbox.arm control --driver=owi           move OWI's arm over USB

The last tenth of the pictures is held out for `evaluate`. Predictions are made in two ways:
`direct` by the network, and `geometry`, the pose whose points are nearest to those that the network
sees.
"""

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import flags
from flags import setting
from trainer.machine.quiet import import_tensorflow
from user_error import UserError, exit_code

ACTIONS = ("capture", "train", "evaluate", "predict", "control")
HELD_OUT = 0.1
NEXT = "Next: python -m sandbox.arm evaluate"


@dataclasses.dataclass(frozen=True)
class Options:
    data: str = setting("data/arm", "Pictures", "folder of pictures and labels")
    count: int = setting(20_000, "Pictures", "pictures to make", least=10)
    size: int = setting(96, "Pictures", "pixels of a side", least=32, most=512)
    network: str = setting("data/arm/network.npz", "Network", "file of its weights")
    updates: int = setting(10_000, "Network", "updates, each with 128 pictures", least=1)
    driver: str = setting("simulated", "Control", "the arm to move", choices=("simulated", "owi"))
    seed: int = setting(1, "Pictures", "of poses, weights and batches", least=0, most=2**31 - 1)


def main(arguments: list[str]) -> int:
    """Does what the first argument says; returns the exit code."""
    return exit_code("sandbox.arm", lambda: _act(arguments))


def _act(arguments: list[str]) -> None:
    definitions = dataclasses.fields(Options)
    usage = "sandbox.arm capture|train|evaluate|predict PICTURE|control"
    parser = flags.parser_of(definitions, f"python -m {usage}", __doc__ or "", "")
    if not arguments or {"-h", "--help"}.intersection(arguments):
        parser.print_help()
        return
    action, rest = arguments[0], arguments[1:]
    if action not in ACTIONS:
        raise UserError(f"{action!r} is unknown; expected {', '.join(ACTIONS)}.")
    pictures = [one for one in rest if not one.startswith("--")]
    options = Options(**flags.parse(parser, [one for one in rest if one.startswith("--")]))
    flags.check_ranges(options)
    if not options.network.endswith(".npz"):
        raise UserError(f"--network={options.network}: expected a name that ends with .npz.")
    if action == "predict":
        if len(pictures) != 1:
            raise UserError("predict: expected the name of one picture.")
        _predict(options, Path(pictures[0]))
    elif pictures:
        raise UserError(f"{pictures[0]!r} is not a flag: write --NAME=VALUE.")
    else:
        actions = {"capture": _capture, "train": _train, "evaluate": _evaluate}
        (actions | {"control": _control})[action](options)


def _control(options: Options) -> None:
    from benchmarks.tools import common
    from sandbox.arm.control import control
    from sandbox.arm.drivers import OwiArm, SimulatedArm

    common.unwind_when_stopped()  # or else motors would run on
    control(OwiArm() if options.driver == "owi" else SimulatedArm())


def _capture(options: Options) -> None:
    from sandbox.arm.capture import capture

    capture(Path(options.data), options.count, options.size, options.seed)


def _train(options: Options) -> None:
    import_tensorflow()
    from sandbox.arm import capture, network, training

    path = Path(options.network)
    network.check_place(path)
    pictures = capture.load(Path(options.data), network.SIZE)
    images, poses, seen = (part[: _held_out_from(len(part))] for part in pictures)
    begun = training.begun(path, options.updates, options.seed, seen)

    def keep(trained: network.PoseNetwork, optimizer: Sequence, done: int) -> None:
        about = {"trained_with": len(images), "updates": done, "of": options.updates}
        network.save(trained, path, about | {"seed": options.seed}, seen, optimizer)

    done = begun.about["updates"] if begun else 0
    if done == options.updates:
        print(flags.with_this_python(f"{path} is trained already. {NEXT}"))
        return
    if done:
        print(f"Resuming from {path} at {done:,} of {options.updates:,} updates.", flush=True)
    training.train(images, poses, options.updates, options.seed, keep, begun)
    print(flags.with_this_python(f"{options.network} written. {NEXT}"))


def _evaluate(options: Options) -> None:
    import_tensorflow()
    import numpy as np

    from sandbox.arm import capture, evaluation, network

    trained, about, seen, _ = network.load(Path(options.network))
    images, poses, checksums = capture.load(Path(options.data), network.SIZE)
    split = _held_out_from(len(images))
    shown, truth = images[split:], poses[split:]
    if known := int(np.isin(checksums[split:], seen).sum()):
        raise UserError(
            f"--data={options.data}: {options.network} was trained with {known} of its last "
            f"{len(truth)} pictures. Give the folder of that training, or one with another --seed."
        )
    if not len(seen):
        print(f"{options.network} does not say which pictures it has seen; these may be some.")
    predicted = network.predict(trained, shown)
    # Angles lie in less than half a circle around their middle, so their mean is one of them.
    predicted["mean predictor"] = np.tile(poses[:split].mean(axis=0), [len(truth), 1])
    found = evaluation.figures(predicted, truth)
    print(f"{len(truth):,} held-out pictures\n{evaluation.table(found)}")
    folder = Path(options.network).parent
    evaluation.write(folder, found, {"pictures": len(truth), "data": options.data, **about})
    evaluation.draw(folder / "predictions.png", shown, predicted["geometry"], truth)
    print(f"{folder / 'evaluation.json'} and predictions.png written")


def _predict(options: Options, picture: Path) -> None:
    import_tensorflow()
    import numpy as np

    from sandbox.arm import geometry, network
    from sandbox.arm.capture import decode, resized

    image = decode(picture.read_bytes(), str(picture))
    height, width = image.shape[:2]
    if height != width:
        raise UserError(
            f"{picture} has {width} × {height} pixels; expected a square, as the network has seen "
            "it. Cut one out that has the whole arm in it."
        )
    trained = network.load(Path(options.network)).network
    predicted = network.predict(trained, resized(image, network.SIZE)[None])
    answer = {}
    for method, [pose] in predicted.items():
        numbers = [float(pose[0]), *map(float, np.degrees(pose[1:]))]
        answer[method] = {n: round(x, 3) for n, x in zip(geometry.NAMES, numbers, strict=True)}
    print(json.dumps(answer, indent=1))


def _held_out_from(count: int) -> int:
    return int(count * (1 - HELD_OUT))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
