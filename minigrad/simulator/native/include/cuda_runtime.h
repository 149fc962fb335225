// Nothing to add: the dialect is included before every file.
