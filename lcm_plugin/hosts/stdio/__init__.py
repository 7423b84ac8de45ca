"""The engine for programs in other languages: one process, one JSON object a line over stdin and stdout."""
