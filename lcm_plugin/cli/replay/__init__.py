"""Playing a transcript through the plugin exactly as a host would, and proving that nothing was lost."""
