"""What a camera sees of the arm: points of it in a picture, and back from these to the arm.

A pose is [..., 6]: the camera's distance in metres, elevation and azimuth, then the angles of base,
upper and lower joint, all angles in radians.
"""

import numpy as np

from environments.python.arm import model

NAMES = ("distance", "elevation", "azimuth", *model.JOINTS)
LOW = np.array(
    [0.9, *np.radians([-60, 0]), *np.radians([model.RANGES[j][0] for j in model.JOINTS])]
)
HIGH = np.array(
    [1.8, *np.radians([-8, 180]), *np.radians([model.RANGES[j][1] for j in model.JOINTS])]
)
FIELD_OF_VIEW = np.radians(45.0)
# Points that do not move, then the base's side, the elbow and the tip.
FIXED = np.array(
    [[0.14, 0.1, 0.06], [0.14, -0.1, 0.06], [-0.14, 0.1, 0.06], [-0.14, -0.1, 0.06], [0, 0, 0.16]]
)
POINTS = len(FIXED) + 3
ROUNDS = 12  # of Gauss and Newton
EXACT = 0.02  # how far off points are at the least


def points(pose: np.ndarray) -> np.ndarray:
    """[..., POINTS, 2]: where the arm's points are in the picture; -1 to 1 from edge to edge."""
    distance, elevation, azimuth = pose[..., 0], pose[..., 1], pose[..., 2]
    flat = np.cos(elevation)
    forward = np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(elevation)], -1)
    right = np.stack([np.sin(azimuth), -np.cos(azimuth), np.zeros_like(azimuth)], -1)
    up = np.cross(right, forward)
    eye = np.array(model.CENTRE) - distance[..., None] * forward
    seen = _places(pose) - eye[..., None, :]
    ahead = np.einsum("...pc,...c->...p", seen, forward)
    sideways = np.einsum("...pc,...c->...p", seen, right) / ahead
    upwards = np.einsum("...pc,...c->...p", seen, up) / ahead
    return np.stack([sideways, -upwards], -1) / np.tan(FIELD_OF_VIEW / 2)


def _places(pose: np.ndarray) -> np.ndarray:
    """[..., POINTS, 3]: where the arm's points are in the world."""
    base, upper = pose[..., 3], pose[..., 4]
    out, up = model.UPPER_LENGTH * np.sin(upper), model.UPPER_LENGTH * np.cos(upper)
    cosine, sine = np.cos(base), np.sin(base)
    side = np.stack([0.09 * cosine, 0.09 * sine, np.full_like(base, 0.12)], -1)
    elbow = np.stack([out * cosine, out * sine, model.SHOULDER_HEIGHT + up], -1)
    moving = np.stack([side, elbow, model.tip(pose[..., 3:])], -2)
    fixed = np.broadcast_to(FIXED, (*pose.shape[:-1], *FIXED.shape))
    return np.concatenate([fixed, moving], -2)


def fitted(start: np.ndarray, seen: np.ndarray, spread: np.ndarray | None = None) -> np.ndarray:
    """[N, 6]: poses whose points are nearest to those seen [N, POINTS, 2], from poses nearby.

    Points with a large ``spread`` [N, POINTS] count less. Gauss and Newton's steps, damped as
    Levenberg and Marquardt do; poses stay in their ranges.
    """
    pose, target = start.copy(), seen.reshape(len(seen), -1)
    trust = np.ones_like(target) if spread is None else _trust(spread)
    damping = np.full(len(pose), 1e-3)
    error = _errors(pose, target, trust)
    for _ in range(ROUNDS):
        gradient = _gradient(pose) * trust[..., None]
        away = (points(pose).reshape(len(pose), -1) - target) * trust
        square = np.einsum("nij,nik->njk", gradient, gradient)
        square += damping[:, None, None] * np.eye(6)
        step = np.linalg.solve(square, np.einsum("nij,ni->nj", gradient, away)[..., None])[..., 0]
        tried = np.clip(pose - step, LOW, HIGH)
        better = _errors(tried, target, trust) < error
        pose = np.where(better[:, None], tried, pose)
        error = _errors(pose, target, trust)
        damping = np.where(better, damping / 3, damping * 5)
    return pose


def _trust(spread: np.ndarray) -> np.ndarray:
    """[N, 2 POINTS]: 1 for points that are known exactly, less for others."""
    return np.repeat(EXACT / np.sqrt(EXACT**2 + np.maximum(0, spread)), 2, axis=1)


def _errors(pose: np.ndarray, target: np.ndarray, trust: np.ndarray) -> np.ndarray:
    return np.sum((trust * (points(pose).reshape(len(pose), -1) - target)) ** 2, axis=1)


def _gradient(pose: np.ndarray) -> np.ndarray:
    """[N, 2 POINTS, 6]: how points move with each number of the pose."""
    moved = pose[:, None] + 1e-4 * np.eye(6)
    change = points(moved).reshape(len(pose), 6, -1) - points(pose).reshape(len(pose), 1, -1)
    return np.swapaxes(change / 1e-4, 1, 2)


def encoded(pose: np.ndarray) -> np.ndarray:
    """[..., 11]: distance from -1 to 1, then sine and cosine of each angle."""
    distance = 2 * (pose[..., :1] - LOW[0]) / (HIGH[0] - LOW[0]) - 1
    return np.concatenate([distance, np.sin(pose[..., 1:]), np.cos(pose[..., 1:])], -1)


def decoded(numbers: np.ndarray) -> np.ndarray:
    """The pose [..., 6] of such numbers [..., 11], within its ranges."""
    distance = LOW[0] + (numbers[..., :1] + 1) / 2 * (HIGH[0] - LOW[0])
    angles = np.arctan2(numbers[..., 1:6], numbers[..., 6:])
    # Just beyond a range's end is that end, also where a whole turn lies between the two.
    middle = (LOW[1:] + HIGH[1:]) / 2
    angles = middle + (angles - middle + np.pi) % (2 * np.pi) - np.pi
    return np.clip(np.concatenate([distance, angles], -1), LOW, HIGH)
