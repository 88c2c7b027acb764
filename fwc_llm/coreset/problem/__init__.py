"""What is given: the table as numbers and codes, its cells, the slots, and everything that stays fixed."""
