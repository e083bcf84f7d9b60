"""What the tests of environments share."""

import pytest

from user_error import UserError


@pytest.fixture
def one_line():
    """Asserts that a call fails with one line that tells all of the given parts."""

    def check(call, *told):
        with pytest.raises(UserError) as caught:
            call()
        message = str(caught.value)
        assert "\n" not in message
        for part in told:
            assert part in message

    return check
