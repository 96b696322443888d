"""What language models are told when they judge replies: one file per criterion."""
