"""The compiled steps of the rivals."""
