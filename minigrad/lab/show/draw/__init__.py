"""Drawing primitives: figures, axes, tiled matrices, bands of blocks, graphs. The subjects are in the folder above."""
