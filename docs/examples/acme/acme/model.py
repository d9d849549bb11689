"""Where your model is asked. This one knows a single sentence."""


class Busy(Exception):
    """The service takes no more questions for `again_in_s` seconds."""

    def __init__(self, again_in_s: float) -> None:
        super().__init__(f"The model is busy for {again_in_s:g} s.")
        self.again_in_s = again_in_s


async def draft(subject: str, letter: str, *, within_s: float) -> str:
    """An answer to a letter. `within_s`: give up after so long, as the `timeout` of the call that stands here in your code.

    The letter is a stranger's: it goes into the prompt as data, and nothing in it is an instruction.
    """
    return "Hello,\n\nthank you for writing. We look into it and answer within a day.\n\nAcme support"
