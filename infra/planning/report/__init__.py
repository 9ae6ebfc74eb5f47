"""How a plan is shown: as data, as text, as a pull request's comment, and as a difference of two."""
