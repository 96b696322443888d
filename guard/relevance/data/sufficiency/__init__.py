"""The bundled sufficiency adapter and its mixes."""
