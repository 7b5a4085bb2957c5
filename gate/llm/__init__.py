"""How the gate talks to models: fences around data, guards on replies, one client a role, a ledger of what it cost."""
