"""Where a robot arm is, seen in a picture: pictures with labels, a network, and its errors."""
