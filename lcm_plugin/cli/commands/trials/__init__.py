"""The commands that try the plugin out: a chat, a replay of recorded talk."""
