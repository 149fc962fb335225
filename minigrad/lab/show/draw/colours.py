"""Colours and type: Okabe and Ito's palette, distinct to colour-blind readers; a hatch, dash or word repeats it."""

BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
LIGHT_BLUE, LIGHT_ORANGE, LIGHT_GREEN = "#CFE6F5", "#FBE2B0", "#C5E8DC"
INK, GREY, PALE, RUST = "#1a1a1a", "#6b6b6b", "#e9e9e9", "#9c3f00"  # rust: vermillion, dark enough for text
EDGE, LIGHT_EDGE = "#9a9a9a", "#c8c8c8"
PAPER = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}  # behind text on a line
ROUND_PAPER = {**PAPER, "boxstyle": "round,pad=0.15"}  # behind text on a hatch
FONT = 11
LIGHT = {"read": LIGHT_BLUE, "write": LIGHT_ORANGE, "atomic": LIGHT_GREEN}  # by kind of access
DARK = {"read": BLUE, "write": ORANGE, "atomic": GREEN}
RAMP = {"read": ("#DCEEFA", SKY), "write": ("#FCEBC6", ORANGE), "atomic": ("#D3F0E5", "#46BF98")}  # text stays black
UNIT = {"float32": BLUE, "3xtf32": SKY, "tf32": PURPLE, "bfloat16": GREEN}  # by arithmetic unit
