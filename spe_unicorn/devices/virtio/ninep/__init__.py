"""9P2000.L, the file protocol of Linux's v9fs: messages, and a server of one folder."""
