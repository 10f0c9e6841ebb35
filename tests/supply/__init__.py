"""What the image is made of: its bill of materials, and what is known against its parts. Outside the gate."""
