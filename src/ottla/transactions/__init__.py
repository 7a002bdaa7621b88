"""Transactions as a pure machine: who may write under a transactional id, and how its transaction ends."""
