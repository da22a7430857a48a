"""The commands of `ding` beside its modes, one module each; `ding.entry.cli` imports a module when its command runs."""
