"""GPUs shared by several processes, with lists of devices in place of real ones."""

import tensorflow as tf

from trainer.machine import gpus

TWO = [tf.config.PhysicalDevice(f"/physical_device:GPU:{n}", "GPU") for n in range(2)]


def test_memory_is_taken_as_needed_on_every_gpu_even_where_one_is_in_use(monkeypatch):
    asked = []

    def grow(gpu, grows):
        asked.append((gpu.name, grows))
        if gpu is TWO[0]:
            raise RuntimeError("Physical devices cannot be modified after being initialized")

    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: TWO)
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", grow)
    gpus.take_memory_as_needed()
    assert asked == [(gpu.name, True) for gpu in TWO]
