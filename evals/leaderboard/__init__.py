"""A leaderboard of models that decide about rows of tables, by fairness: ask, check, and make the page."""
