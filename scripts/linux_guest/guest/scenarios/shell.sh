# A shell on the console, with perf and the workload hot; "exit" powers off.
sh
