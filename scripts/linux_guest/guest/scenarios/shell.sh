# Boots to a shell on the console. "exit" turns the machine off.
setsid cttyhack sh
