"""The inner problem F(C), solved exactly with a certificate by `inner_problem.fair_transport`."""
