"""The models of OpenAI."""


class OpenAI:
    """A model by its name."""
