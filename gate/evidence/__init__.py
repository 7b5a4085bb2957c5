"""What a session recorded: written once, chained, sealed, and read back only after its seal was checked."""
