"""Which examples make a real model fairer: the second experiment, by
evals/real_model/counter/plan.md.
"""
