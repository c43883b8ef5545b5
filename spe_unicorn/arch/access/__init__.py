"""Who may access a System register, and where a refused access goes."""
