"""The deep residual network and an LSTM: the large agent of the IMPALA paper."""

from agents.resnet import ResNetAgent


class ResNetLSTMAgent(ResNetAgent):
    """ResNetTorso → + last reward, last action → LSTM 256 → policy, baseline."""

    lstm_size = 256
