"""`ottla demo`: a small shop on a cluster of three nodes, and what becomes of it when one of them dies.

Owns: the shop's events (`shop`), the acts of the demo and how they are told. Never knows: the inside of a node; it
reaches the cluster as any program does, through the client.
"""
