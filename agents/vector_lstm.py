"""Two small layers and an LSTM, for vectors that do not show the whole state."""

from agents.vector import VectorAgent


class VectorLSTMAgent(VectorAgent):
    """VectorTorso → + last reward, last action → LSTM 64 → policy, baseline."""

    lstm_size = 64
