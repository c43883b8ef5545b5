"""FUSE, the protocol by which Linux asks for files (virtiofs): messages, a server of one folder."""
