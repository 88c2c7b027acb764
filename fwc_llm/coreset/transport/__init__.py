"""The inner problem F(C), solved by `inner_problem.fair_transport`."""
