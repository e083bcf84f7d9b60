"""The arm: a base that turns, an upper and a lower arm, a table, walls and things around it."""

from typing import Any

import numpy as np

JOINTS = ("base", "upper", "lower")
# Degrees; at 0 the arm points straight up, over the base's red mark.
RANGES = {"base": (-90.0, 90.0), "upper": (-60.0, 75.0), "lower": (-110.0, 110.0)}
UPPER_LENGTH, LOWER_LENGTH, SHOULDER_HEIGHT = 0.30, 0.26, 0.16
REACH = UPPER_LENGTH + LOWER_LENGTH
CENTRE = (0.0, 0.0, 0.28)  # what a camera looks at
CLUTTER = 6  # things that stand around


def xml() -> str:
    """The model in MuJoCo's language; all sizes in metres."""
    low_high = {name: f"{low} {high}" for name, (low, high) in RANGES.items()}
    clutter = "".join(
        f'<geom name="clutter_{index}" type="box" size=".05 .05 .05" pos="0 0 -3"/>'
        for index in range(CLUTTER)
    )
    walls = "".join(
        f'<geom name="wall_{index}" type="box" size="{size}" pos="{place}"/>'
        for index, (size, place) in enumerate(
            [("6 .1 4", "0 6 3"), ("6 .1 4", "0 -6 3"), (".1 6 4", "6 0 3"), (".1 6 4", "-6 0 3")]
        )
    )
    return f"""
<mujoco>
  <compiler angle="degree"/>
  <option timestep="0.01" gravity="0 0 0"/>
  <visual><global offwidth="512" offheight="512" fovy="45"/><quality shadowsize="512"/></visual>
  <default>
    <geom contype="0" conaffinity="0"/>
    <joint type="hinge" limited="true" damping="2" armature="0.05"/>
    <motor gear="4" ctrlrange="-1 1" ctrllimited="true"/>
  </default>
  <worldbody>
    <light name="light" pos="0 0 3" dir="0 0 -1" directional="false"/>
    <geom name="floor" type="plane" size="8 8 1" rgba=".5 .5 .5 1"/>
    {walls}{clutter}
    <geom name="foot" type="box" size=".14 .10 .03" pos="0 0 .03" rgba=".15 .15 .18 1"/>
    <geom name="mark" type="box" size=".03 .06 .012" pos=".11 0 .07" rgba=".85 .1 .1 1"/>
    <geom name="mark_2" type="sphere" size=".025" pos="-.10 .07 .08" rgba=".1 .2 .9 1"/>
    <site name="corner_0" pos=".14 .10 .06"/><site name="corner_1" pos=".14 -.10 .06"/>
    <site name="corner_2" pos="-.14 .10 .06"/><site name="corner_3" pos="-.14 -.10 .06"/>
    <body name="base" pos="0 0 .06">
      <joint name="base" axis="0 0 1" range="{low_high["base"]}"/>
      <geom type="cylinder" size=".07 .05" pos="0 0 .05" rgba=".9 .75 .1 1"/>
      <geom type="box" size=".02 .02 .05" pos=".07 0 .06" rgba=".1 .1 .1 1"/>
      <site name="side" pos=".09 0 .06"/>
      <body name="upper" pos="0 0 {SHOULDER_HEIGHT - 0.06:g}">
        <joint name="upper" axis="0 1 0" range="{low_high["upper"]}"/>
        <geom type="capsule" fromto="0 0 0 0 0 {UPPER_LENGTH}" size=".032" rgba=".9 .45 .1 1"/>
        <site name="shoulder" pos="0 0 0"/>
        <body name="lower" pos="0 0 {UPPER_LENGTH}">
          <joint name="lower" axis="0 1 0" range="{low_high["lower"]}"/>
          <geom type="capsule" fromto="0 0 0 0 0 {LOWER_LENGTH - 0.05:g}" size=".025"
                rgba=".2 .7 .35 1"/>
          <geom type="box" size=".02 .045 .02" pos="0 0 {LOWER_LENGTH - 0.02:g}"
                rgba=".9 .9 .95 1"/>
          <site name="elbow" pos="0 0 0"/>
          <site name="tip" pos="0 0 {LOWER_LENGTH}"/>
        </body>
      </body>
    </body>
    <body name="target" mocap="true" pos="0 0 -3">
      <geom type="sphere" size=".03" rgba="1 0 .8 1"/>
    </body>
  </worldbody>
  <actuator>
    <motor joint="base"/><motor joint="upper"/><motor joint="lower"/>
  </actuator>
</mujoco>"""


def load() -> Any:
    """MuJoCo's model of the arm."""
    import mujoco  # loads OpenGL, which not every process can

    return mujoco.MjModel.from_xml_string(xml())


def tip(angles: np.ndarray) -> np.ndarray:
    """[..., 3]: where the tip is with the joints at these angles [..., 3] in radians."""
    base, upper, both = angles[..., 0], angles[..., 1], angles[..., 1] + angles[..., 2]
    out = UPPER_LENGTH * np.sin(upper) + LOWER_LENGTH * np.sin(both)
    up = SHOULDER_HEIGHT + UPPER_LENGTH * np.cos(upper) + LOWER_LENGTH * np.cos(both)
    return np.stack([out * np.cos(base), out * np.sin(base), up], axis=-1)
