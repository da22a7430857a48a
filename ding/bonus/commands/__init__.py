"""The commands of `ding` that make agents, one module each; `ding.entry.cli` imports a module when its command runs."""
