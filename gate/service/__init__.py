"""The webhook service: GitHub calls, the same job as the Action's is done here and reported there."""
