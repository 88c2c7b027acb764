"""The inner problem F(C), solved exactly, with its certificate; call `fair.fair_transport`."""
