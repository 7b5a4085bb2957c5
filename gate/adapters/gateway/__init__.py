"""The model gateway: the one way out of a sandbox that a real agent program has, owned and recorded by the gate.

A program inside speaks HTTP to ``relay`` on its own loopback; the relay carries the bytes over the standard input and
output of an exec, never over a network. On the gate's side ``line`` gives every connection to ``app``, which checks who
asks and for what, writes the request down, sends it to the one fixed upstream with the key, and writes down the answer.
Each provider protocol is a file of its own.
"""
