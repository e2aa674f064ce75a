"""structmem_replicator: moving a memory's journal between hosts."""
