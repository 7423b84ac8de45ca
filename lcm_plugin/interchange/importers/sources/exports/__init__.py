"""Exports of chat sites and collections of chats."""
