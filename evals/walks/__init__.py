"""Recorded walks through the tool: pages whose commands a test runs, and the tables that they
start from.
"""
