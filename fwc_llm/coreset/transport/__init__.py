"""The inner problem F(C), solved exactly, with its certificate; `fair.fair_transport` is the door."""
